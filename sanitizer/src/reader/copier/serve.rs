//! The copier process: the body of `gwp-race __copier`. Its standard input is the socket to the daemon.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
};

use gwp_race_abi::descent::ExecutedFile;
use nix::unistd::Pid;

use super::wire::{LONGEST_REQUEST, Question, Reply, Request};
use crate::{
    image::copy_to_disk,
    kernel::{
        descriptors::close_inherited,
        executed::{Executed, Search},
        foreign::{Purpose, Via},
        passing::Passing,
        process,
    },
    reader::{HeaderReader, Program, wire},
    symbols::Opened,
    tracee,
};

/// Answers until the daemon closes the socket; the exit code. `reader`: what reads headers.
#[must_use]
pub fn serve(socket: OwnedFd, reader: Program) -> u8 {
    process::set_name(c"gwp-race-copier");
    // No folder is kept in use. Where that cannot be, nothing is lost.
    let _ = std::env::set_current_dir("/");
    close_inherited(socket.as_fd());
    // Its end is seen at the socket as well, but not by whoever waits for a file system.
    let _ = process::die_with_parent();
    process::keep_private();
    let mut socket = Passing::new(UnixStream::from(socket));
    let mut reader = HeaderReader::new(reader);
    let mut found = None;
    loop {
        let Ok((request, _)) = wire::receive(&mut socket, LONGEST_REQUEST, None) else {
            return 0;
        };
        if answer(&socket, &mut reader, &mut found, request).is_err() {
            return 0;
        }
    }
}

fn answer(
    socket: &Passing,
    reader: &mut HeaderReader,
    found: &mut Option<Opened>,
    request: Request,
) -> io::Result<()> {
    let tell = |reply: &Reply, copy: Option<&File>| {
        wire::send(socket, reply, copy.map(std::os::fd::AsFd::as_fd), None)
    };
    match request {
        Request::Carries(question) => {
            let before = reader.cpu();
            // What a reader takes is not the file system's silence. (Should nobody hear it, that is noticed in the end.)
            let mut going = || {
                let _ = tell(&Reply::Going, None);
            };
            let carries = carries(reader, &question, &mut going);
            let worked = reader.cpu().saturating_sub(before).as_nanos();
            let worked_ns = u64::try_from(worked).unwrap_or(u64::MAX);
            tell(&Reply::Carries(carries, worked_ns), None)
        }
        Request::Find(via) => {
            *found = None;
            let identity = find(&via).map(|opened| found.insert(opened).identity);
            tell(&Reply::Found(identity.map_err(|why| why.to_string())), None)
        }
        Request::Copy => {
            let copy = found
                .take()
                .ok_or_else(|| io::Error::other("no file was found"))
                .and_then(|found| {
                    copy_to_disk(found.file, || {
                        // Should nobody hear it, that is noticed in the end.
                        let _ = tell(&Reply::Going, None);
                    })
                });
            let told = copy.as_ref().map(|_| ()).map_err(|error| error.to_string());
            tell(&Reply::Copied(told), copy.as_ref().ok())
        }
    }
}

fn find(via: &Via) -> io::Result<Opened> {
    Opened::elf(via.open(Purpose::Code).map_err(io::Error::other)?)
}

/// `going`: tells that nobody has waited in vain so far.
fn carries(
    reader: &mut HeaderReader,
    question: &Question,
    going: &mut dyn FnMut(),
) -> Option<bool> {
    match question {
        Question::Executed {
            file: (device, inode, size, changed),
            path,
            parent,
            by,
            others,
        } => {
            let executed = Executed {
                file: ExecutedFile {
                    device: *device,
                    inode: *inode,
                    size: *size,
                    changed: *changed,
                },
                path: path.clone(),
                parent: *parent,
            };
            match executed.find(*by, others, Purpose::Code) {
                Search::Found(file) => reader.carries_served(file.open().ok()?, path, going),
                Search::Served(_) | Search::Nowhere => None,
            }
        }
        Question::Mapped(pid, _) => {
            let pid = Pid::from_raw(pid.cast_signed());
            let files = tracee::code_files(pid, Purpose::Code).ok()?;
            let mut is_hidden = false;
            let ended = reader.ended();
            for file in &files.found {
                let Ok(opened) = file.open(Purpose::Code) else {
                    continue;
                };
                let carries = reader.carries_served(opened, file.path(), going);
                going();
                match carries {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => is_hidden = true,
                }
                // Who has mapped many such files has one reader ended at a time.
                if reader.ended() > ended {
                    break;
                }
            }
            (!is_hidden).then_some(false)
        }
    }
}

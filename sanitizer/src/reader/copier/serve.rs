//! The copier process: the body of `gwp-race __copier`. Its standard input is the socket to the daemon.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
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
    pcmeta::Metadata,
    reader::wire,
    symbols::Opened,
    tracee,
};

/// Answers until the daemon closes the socket; the exit code.
#[must_use]
pub fn serve(socket: OwnedFd) -> u8 {
    process::set_name(c"gwp-race-copier");
    close_inherited(socket.as_fd());
    // Its end is seen at the socket as well, but not by whoever waits for a file system.
    let _ = process::die_with_parent();
    process::keep_private();
    let mut socket = Passing::new(UnixStream::from(socket));
    let mut found = None;
    loop {
        let Ok((request, _)) = wire::receive(&mut socket, LONGEST_REQUEST, None) else {
            return 0;
        };
        if answer(&socket, &mut found, request).is_err() {
            return 0;
        }
    }
}

fn answer(socket: &Passing, found: &mut Option<Opened>, request: Request) -> io::Result<()> {
    let tell = |reply: &Reply, copy: Option<&File>| {
        wire::send(socket, reply, copy.map(std::os::fd::AsFd::as_fd), None)
    };
    match request {
        Request::Carries(question) => tell(&Reply::Carries(carries(&question)), None),
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

fn carries(question: &Question) -> Option<bool> {
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
                Search::Found(file) => Some(is_covered(file.open().ok()?, path)),
                Search::Served(_) | Search::Nowhere => None,
            }
        }
        Question::Mapped(pid, _) => {
            let pid = Pid::from_raw(pid.cast_signed());
            let files = tracee::code_files(pid, Purpose::Code).ok()?;
            let mut opened = files.found.iter().filter_map(|file| {
                let opened = file.open(Purpose::Code).ok()?;
                Some(is_covered(opened, file.path()))
            });
            Some(opened.any(|is_covered| is_covered))
        }
    }
}

fn is_covered(file: File, name: &Path) -> bool {
    Metadata::is_carried_by_file(file, name)
}

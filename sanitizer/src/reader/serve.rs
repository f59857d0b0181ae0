//! The reader process: the body of `gwp-race __reader`. Its standard input is the socket to the daemon.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;

use super::wire::{self, LONGEST_OUTLINE, LONGEST_REQUEST, Place, Reply, Request, Told};
use crate::{
    image::{Image, ImageError},
    kernel::{
        descriptors::close_inherited,
        passing::Passing,
        process,
        sandbox::{self, Room},
    },
    symbols::{
        Answer, Beside, Carried, FileIdentity, Looked, Opened, Outline, ReadAt, Shelf,
        StackSnapshot, Wanted,
    },
};

/// Bytes of an answer beside what is known of a file.
const AROUND: usize = 16;

/// The socket: whoever reads a file asks for others in between.
#[derive(Clone)]
struct Daemon(Arc<Mutex<Passing>>);

impl Daemon {
    fn tell(&self, reply: &impl Serialize) -> io::Result<()> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&socket, reply, None, None)
    }

    fn hear(&self) -> io::Result<(Request, Option<OwnedFd>)> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wire::receive(&mut socket, LONGEST_REQUEST, None)
    }
}

impl Beside for Daemon {
    fn look(&self, wanted: &Wanted) -> Looked {
        let looked = self.tell(&Reply::Want(wanted.clone()));
        match looked.and_then(|()| self.hear()) {
            Ok((Request::Looked(Place::Has(identity)), Some(file))) => {
                Looked::Found(opened(file, identity))
            }
            // The daemon could not pass it, or this process has too many.
            Ok((Request::Looked(Place::Has(_) | Place::Empty), _)) => Looked::Nothing,
            Ok((Request::Looked(Place::IsNone), _)) => Looked::NoPlace,
            // It is gone: nothing else is to be done.
            _ => std::process::exit(0),
        }
    }
}

impl ReadAt for Daemon {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let most = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let asked = self.tell(&Reply::Read(at, most));
        let piece = match asked.and_then(|()| self.hear()) {
            Ok((Request::Piece(piece), _)) => piece,
            // It is gone: nothing else is to be done.
            _ => std::process::exit(0),
        };
        let piece = piece.ok_or_else(|| io::Error::other("it cannot be read"))?;
        let there = bytes.get_mut(..piece.len());
        there
            .ok_or(io::ErrorKind::InvalidData)?
            .copy_from_slice(&piece);
        Ok(piece.len())
    }
}

fn opened(file: OwnedFd, identity: FileIdentity) -> Opened {
    Opened {
        file: File::from(file),
        identity,
    }
}

/// Gives up all rights, then answers until the daemon closes the socket; the exit code.
#[must_use]
pub fn serve(socket: OwnedFd, room: Room) -> u8 {
    process::set_name(c"gwp-race-reader");
    // No folder is kept in use. Where that cannot be, nothing is lost.
    let _ = std::env::set_current_dir("/");
    close_inherited(socket.as_fd());
    // Its end is seen at the socket as well.
    let _ = process::die_with_parent();
    // Another one is started, and nobody stands for it.
    process::end_first_for_memory();
    let missing = sandbox::enter(room);
    let missing = missing.iter().map(ToString::to_string).collect();
    let socket = Passing::new(UnixStream::from(socket));
    let daemon = Daemon(Arc::new(Mutex::new(socket)));
    let mut shelf = Shelf::default();
    let mut stack = None;
    let mut told = daemon.tell(&Reply::Ready(missing));
    while told.is_ok() {
        let Ok((request, descriptor)) = daemon.hear() else {
            return 0;
        };
        told = answer(&daemon, &mut shelf, &mut stack, request, descriptor);
    }
    0
}

fn answer(
    daemon: &Daemon,
    shelf: &mut Shelf,
    stack: &mut Option<StackSnapshot>,
    request: Request,
    descriptor: Option<OwnedFd>,
) -> io::Result<()> {
    match request {
        Request::Open(number, identity) | Request::OpenForCode(number, identity) => {
            let open = match request {
                Request::OpenForCode(..) => Shelf::open_for_code,
                _ => Shelf::open,
            };
            let facts = match descriptor {
                Some(file) => {
                    let beside = Arc::new(daemon.clone());
                    open(shelf, number, opened(file, identity), beside)
                }
                None => Err(io::Error::other("no descriptor came")),
            };
            daemon.tell(&Reply::Opened(facts.map_err(|error| error.to_string())))
        }
        Request::Close(number) => {
            shelf.close(number);
            Ok(())
        }
        Request::Stack(told) => {
            *stack = Some(told);
            Ok(())
        }
        Request::Ask(number, question) => {
            #[cfg(any(test, feature = "fault-injection"))]
            if let Some(build_id) = shelf.build_id(number) {
                crate::kernel::fault::misdeed::asked_by(build_id);
            }
            let answer: Option<Answer> = shelf.ask(number, &question, stack.as_ref());
            daemon.tell(&Reply::Answer(answer, shelf.given_up(number)))
        }
        Request::Carries(size) => {
            let carries = descriptor.and_then(|file| carries(&File::from(file), size));
            daemon.tell(&Reply::Carries(carries))
        }
        Request::CarriesRelayed(size) => daemon.tell(&Reply::Carries(carries(daemon, size))),
        Request::BuildIdRelayed(size) => daemon.tell(&Reply::BuildId(build_id(daemon, size))),
        Request::OutlineOfFile(size, name) => {
            let outline = match descriptor {
                Some(file) => {
                    outline(|| Image::from_file_of_size(&File::from(file), size, Path::new(&name)))
                }
                None => Told::Nothing("no descriptor came".to_owned()),
            };
            daemon.tell(&outline)
        }
        Request::OutlineOfBytes(bytes, name) => {
            daemon.tell(&outline(|| Image::parse_any(bytes, Path::new(&name))))
        }
        // Nothing was asked for.
        Request::Looked(_) | Request::Piece(_) => Ok(()),
    }
}

/// What is known of a file.
fn outline(read: impl FnOnce() -> Result<Image, ImageError>) -> Told {
    match read().and_then(Image::linked) {
        Ok(image) => {
            #[cfg(any(test, feature = "fault-injection"))]
            crate::kernel::fault::misdeed::asked_by_outline(image.build_id().unwrap_or_default());
            match Outline::of(&image).within(LONGEST_OUTLINE - AROUND) {
                Some(outline) => Told::Outline(Box::new(outline)),
                None => Told::Nothing(format!(
                    "{}: its tables are larger than any compiler's (more than {} MiB are to be told of them); watch a build with fewer of them",
                    image.name().display(),
                    LONGEST_OUTLINE >> 20
                )),
            }
        }
        Err(error) => Told::Nothing(error.to_string()),
    }
}

/// Whether a file carries metadata; nothing where it cannot be read.
fn carries(file: &impl ReadAt, size: u64) -> Option<bool> {
    match Carried::by(file, size) {
        Ok(carried) => {
            #[cfg(any(test, feature = "fault-injection"))]
            crate::kernel::fault::misdeed::asked_by(&carried.build_id);
            Some(carried.metadata)
        }
        Err(error) => match error.kind() {
            // It is none that could, or says that its tables are where no file has anything.
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => Some(false),
            _ => None,
        },
    }
}

/// The build id of a file; nothing where it is no ELF file, or not all of one.
fn build_id(file: &impl ReadAt, size: u64) -> Option<Vec<u8>> {
    let carried = Carried::by(file, size).ok()?;
    #[cfg(any(test, feature = "fault-injection"))]
    crate::kernel::fault::misdeed::asked_by(&carried.build_id);
    (!carried.is_cut).then_some(carried.build_id)
}

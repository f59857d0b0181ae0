//! What the daemon and its reader say to each other: postcard over [`Passing`].

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::Instant,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    bounded,
    kernel::passing::Passing,
    symbols::{Answer, Facts, FileIdentity, Outline, Question, StackSnapshot, Wanted},
};

/// The longest message to the reader: the stack of a thread is the most.
pub(super) const LONGEST_REQUEST: usize = 64 << 20;
/// The longest message with what is known of the code of a file: that of a program of hundreds of megabytes has a fourth of that.
pub(super) const LONGEST_OUTLINE: usize = 32 << 20;
/// The longest reason for which a file is none that has code, in bytes: the name of a file is a part of it.
pub(super) const LONGEST_WHY: usize = 8 << 10;
/// The longest message from it beside that.
pub(super) const LONGEST_REPLY: usize = Answer::LARGEST + (1 << 16);

/// What the daemon says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// A file, whose descriptor comes with this, has this number from now on: answered by `Opened`.
    Open(u64, FileIdentity),
    /// The same of a file that is asked about its code alone.
    OpenForCode(u64, FileIdentity),
    /// A file is not asked about for now.
    Close(u64),
    /// What questions mean by the stack from now on.
    Stack(StackSnapshot),
    /// Answered by `Answer`.
    Ask(u64, Question),
    /// What came of looking for what is wanted.
    Looked(Place),
    /// Whether a file of so many bytes, whose descriptor comes with this, carries metadata: answered by `Carries`.
    Carries(u64),
    /// The same of a file that whoever asks reads: its bytes are asked for.
    CarriesRelayed(u64),
    /// The build id of such a file: answered by `BuildId`.
    BuildIdRelayed(u64),
    /// What is known of the code of a file of so many bytes, whose descriptor comes with this, and of which messages have this name: answered by [`Told`].
    OutlineOfFile(u64, String),
    /// The same of these bytes.
    OutlineOfBytes(Vec<u8>, String),
    /// The bytes that were asked for, fewer where the file ends before; nothing where they cannot be read.
    Piece(Option<Vec<u8>>),
}

/// What is in a place.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Place {
    /// The file whose descriptor comes with this.
    Has(FileIdentity),
    /// Nothing that may be opened.
    Empty,
    /// There is no such place.
    IsNone,
}

/// What the reader says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// First: it has given up all rights; what of the sandbox there is not here.
    Ready(Vec<String>),
    /// What the file is, or why it is none.
    Opened(Result<Facts, String>),
    /// The answer, and what of the file's debug information has been too much.
    Answer(Option<Answer>, Option<String>),
    /// This is wanted beside the file that the last request was about: answered by `Looked`.
    Want(Wanted),
    /// Whether the file carries metadata; nothing where it cannot be read.
    Carries(Option<bool>),
    /// The build id of the file, empty where it has none; nothing where it is no ELF file, or not all of one.
    BuildId(Option<Vec<u8>>),
    /// So many bytes of the file that the last request was about are wanted, from an offset on: answered by `Piece`.
    Read(u64, u32),
}

/// What the reader says of the code of a file: by itself, so that none of the others can be as long.
#[derive(Serialize, Deserialize)]
pub(super) enum Told {
    /// This.
    Outline(Box<Outline>),
    /// Why it is none that has any.
    Nothing(#[serde(deserialize_with = "bounded::text::<_, LONGEST_WHY>")] String),
}

pub(super) fn send<T: Serialize>(
    socket: &Passing,
    message: &T,
    descriptor: Option<BorrowedFd<'_>>,
    until: Option<Instant>,
) -> io::Result<()> {
    let bytes = postcard::to_allocvec(message)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    socket.send(&bytes, descriptor, until)
}

pub(super) fn receive<T: DeserializeOwned>(
    socket: &mut Passing,
    most: usize,
    until: Option<Instant>,
) -> io::Result<(T, Option<OwnedFd>)> {
    let (bytes, descriptor) = socket.receive(most, until)?;
    let message = postcard::from_bytes(&bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((message, descriptor))
}

/// A reason without what is too much of it: whoever has read the file may be the file's by now.
pub(super) fn brief(mut text: String, longest: usize) -> String {
    text.truncate(text.floor_char_boundary(longest));
    text.shrink_to_fit();
    text
}

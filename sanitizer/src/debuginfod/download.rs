//! One file from one server.

use std::{
    fmt,
    io::{self, Read as _},
    time::{Duration, Instant},
};

use ureq::{Agent, Timeout};

use super::{cache::Partial, settings::Settings};
use crate::http::{Patience, Trust, client};

/// Bytes that are taken at a time.
const PIECE: usize = 1 << 16;
const OK: u16 = 200;
const NOT_FOUND: u16 = 404;
const GONE: u16 = 410;

/// Why a file was not had from a server.
#[derive(Debug)]
pub(super) enum Failure {
    /// It has none.
    Absent,
    /// It has not answered in time, or has stopped.
    Silent(Duration),
    /// It cannot be reached, or has broken off.
    Unreachable(String),
    /// It answers with an error.
    Refused(u16),
    /// It names another address.
    Elsewhere(u16),
    /// The file has more bytes.
    TooLarge(u64),
    /// The file has not come in time.
    TooLong(Duration),
    /// The file cannot be written.
    Unwritable(io::Error),
    /// It is another file than was asked for.
    Foreign(String),
    /// Which file it is could not be found out.
    Unread(String),
    /// Nobody can find out which file it is.
    NoReader(String),
}

impl Failure {
    /// The server is not worth asking for other files for a while.
    pub(super) const fn is_of_server(&self) -> bool {
        matches!(
            self,
            Self::Silent(_) | Self::Unreachable(_) | Self::TooLong(_)
        )
    }
}

/// What was wrong, and what to do, as part of a sentence that begins with the server.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: &Duration| humantime::format_duration(*time);
        match self {
            Self::Absent => write!(f, "does not have it"),
            Self::Silent(limit) => write!(
                f,
                "has not answered for {}: set DEBUGINFOD_TIMEOUT to more seconds",
                seconds(limit)
            ),
            Self::Unreachable(why) => write!(
                f,
                "cannot be reached, or has broken off ({why}): check DEBUGINFOD_URLS"
            ),
            Self::Refused(status) => write!(
                f,
                "has answered with the HTTP status {status}: try again later, or ask who runs it"
            ),
            Self::Elsewhere(status) => write!(
                f,
                "leads elsewhere (HTTP status {status}), which is not followed: name the address that has the files in DEBUGINFOD_URLS"
            ),
            Self::TooLarge(limit) => write!(
                f,
                "has a file of more than {limit} bytes: set DEBUGINFOD_MAXSIZE to more bytes"
            ),
            Self::TooLong(limit) => write!(
                f,
                "has not sent all of it within {}: set DEBUGINFOD_MAXTIME to more seconds",
                seconds(limit)
            ),
            Self::Foreign(what) => write!(
                f,
                "has sent something else ({what}), which was not used: tell who runs it, or take it out of DEBUGINFOD_URLS"
            ),
            Self::Unread(why) => write!(
                f,
                "has sent a file whose headers could not be read, which was not used ({why}): try again later, or ask who runs it"
            ),
            Self::NoReader(why) => write!(
                f,
                "has it, but it was not fetched, since {why}; `gwp-race doctor` tells more"
            ),
            Self::Unwritable(error) => write!(
                f,
                "has it, but it cannot be kept ({error}): make room there, or set DEBUGINFOD_CACHE_PATH to another folder"
            ),
        }
    }
}

/// An agent for servers, by the settings' limits.
pub(super) fn agent(settings: &Settings) -> Agent {
    let patience = Patience {
        resolve: settings.answer,
        connect: settings.answer,
        answer: settings.answer,
        read: settings.answer,
        ..Patience::default()
    };
    client(None, &Trust::default(), patience)
}

/// Writes the debug file of a build id that a server has to what is begun once it comes. `until`: when it has to be there; `progress` is told how many bytes have come,
/// and of how many if that is known.
pub(super) fn download(
    (agent, settings): (&Agent, &Settings),
    url: &str,
    until: Option<Instant>,
    begin: impl FnOnce() -> Result<Partial, Failure>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Partial, Failure> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let failed = |error: ureq::Error| failure(error, settings);
    let request = agent.get(url).config().timeout_global(left).build();
    let response = request.call().map_err(failed)?;
    match response.status().as_u16() {
        OK => {}
        NOT_FOUND | GONE => return Err(Failure::Absent),
        status @ 300..400 => return Err(Failure::Elsewhere(status)),
        status => return Err(Failure::Refused(status)),
    }
    let mut body = response.into_body();
    let size = body.content_length();
    let is_too_large = |bytes: u64| settings.largest.filter(|largest| bytes > *largest);
    if let Some(largest) = size.and_then(is_too_large) {
        return Err(Failure::TooLarge(largest));
    }
    let mut partial = begin()?;
    let mut reader = body.as_reader();
    let mut piece = vec![0; PIECE];
    let mut came = 0;
    loop {
        let read = match reader.read(&mut piece) {
            Ok(0) => return Ok(partial),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error.into())),
        };
        came += read as u64;
        if let Some(largest) = is_too_large(came) {
            return Err(Failure::TooLarge(largest));
        }
        let piece = piece.get(..read).unwrap_or_default();
        partial.write(piece).map_err(Failure::Unwritable)?;
        progress(came, size);
        // Where each piece comes in time the whole may not.
        if until.is_some_and(|until| until <= Instant::now()) {
            return Err(Failure::TooLong(settings.whole.unwrap_or_default()));
        }
    }
}

fn failure(error: ureq::Error, settings: &Settings) -> Failure {
    match error {
        ureq::Error::Timeout(Timeout::Global) => {
            Failure::TooLong(settings.whole.unwrap_or_default())
        }
        ureq::Error::Timeout(_) => Failure::Silent(settings.answer.unwrap_or_default()),
        // These would repeat the address.
        ureq::Error::BadUri(_) | ureq::Error::RequireHttpsOnly(_) => {
            Failure::Unreachable("its address is none".to_owned())
        }
        error => Failure::Unreachable(error.to_string()),
    }
}

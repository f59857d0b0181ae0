//! The daemon's side where files are many, and all that is asked of each is whether it carries metadata, or what its build id is: its headers tell.
//!
//! Whoever looks at all processes of a machine meets files of whoever may execute one there. He opens them and hands them to a reader, one after the other, and waits for the answers; the same
//! reader goes on for as long as he does. Where it has ended instead of answering, or does not answer in time, the file is not known. It is tried again when it is asked for the next time, by another
//! reader, until it has ended so many that it is tried no more.
//!
//! Of a file system that may not answer the reader gets no descriptor: whoever asks reads for it, and it is he who waits.

use std::{
    fs::File,
    io::ErrorKind,
    os::unix::fs::FileExt as _,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    ends::Ends,
    process::{End, LONGEST_END, Program},
    renewed::{Duty, Renewed},
    wire::{Reply, Request},
};
use crate::symbols::Opened;

/// How long it may take until one is ready.
const START: Duration = Duration::from_secs(7);
/// The same for whoever reads himself: he is waited for no longer than a file system is.
const START_OF_SERVED: Duration = Duration::from_secs(4);
/// The longest answer, in bytes: it says yes, no, or nothing, what is to be read, or a build id.
const LONGEST_ANSWER: usize = 80;
/// So much is read for a reader at once.
const PIECE: u32 = 1 << 16;
const DUTY: Duty = Duty {
    reads: "the headers of programs",
    without: "no programs are watched whose files were not looked at before",
};

/// The same for files that servers have sent.
const DUTY_FOR_SERVED: Duty = Duty {
    reads: "the headers of debug files",
    without: "no debug file of a server is used",
};

/// Why the build id of a file is not known.
#[derive(Debug, thiserror::Error)]
pub enum Unidentified {
    /// There is none to be known.
    #[error("what is no ELF file, or not all of one")]
    NotWhole,
    /// It could not be looked at.
    #[error("a file whose headers could not be read: {0}")]
    Unread(String),
}

/// Who reads the bytes of a file.
enum By<'a> {
    /// The reader.
    Reader,
    /// Whoever asks; it is called when the reader is ready.
    Asker(&'a mut dyn FnMut()),
}

/// See the module.
#[derive(Debug)]
pub struct HeaderReader {
    reader: Renewed,
    duty: Duty,
    deadline: Duration,
    ends: Ends,
    /// For how long readers that ended were waited for beyond what they worked.
    idle: Duration,
}

impl Default for HeaderReader {
    fn default() -> Self {
        Self::new(Program::default())
    }
}

impl HeaderReader {
    /// How long an answer may take, in which a few MiB are read at most.
    pub const DEADLINE: Duration = Duration::from_secs(2);
    /// Whoever asks about a file waits no longer than this.
    pub const LONGEST: Duration = Self::longest(Self::DEADLINE);

    /// The same where an answer may take so long: until a reader is ready, for its answer, and for its end.
    #[must_use]
    pub const fn longest(deadline: Duration) -> Duration {
        START.saturating_add(deadline).saturating_add(LONGEST_END)
    }

    /// One is started when it is needed.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self::with_duty(program, DUTY)
    }

    /// The same for files that servers have sent.
    #[must_use]
    pub fn of_served(program: Program) -> Self {
        Self::with_duty(program, DUTY_FOR_SERVED)
    }

    fn with_duty(program: Program, duty: Duty) -> Self {
        Self {
            reader: Renewed::new(program, duty),
            duty,
            deadline: Self::DEADLINE,
            ends: Ends::new(duty.reads),
            idle: Duration::ZERO,
        }
    }

    /// An answer may take so long.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether an open file carries metadata; nothing where that is not known. `name`: what messages call it.
    pub fn carries(&mut self, file: File, name: &Path) -> Option<bool> {
        self.find_out(file, name, By::Reader)
    }

    /// The same of a file whose file system may not answer: it is read by this process, a piece at a time, as the reader asks for it, for which the time does not count that it has to answer.
    /// `ready` is called when there is a reader.
    pub fn carries_served(
        &mut self,
        file: File,
        name: &Path,
        ready: &mut dyn FnMut(),
    ) -> Option<bool> {
        self.find_out(file, name, By::Asker(ready))
    }

    fn find_out(&mut self, file: File, name: &Path, by: By<'_>) -> Option<bool> {
        let opened = match Opened::elf(file) {
            Ok(opened) => opened,
            // Scripts, and whatever else is mapped as code.
            Err(error) if error.kind() == ErrorKind::InvalidData => return Some(false),
            Err(_) => return None,
        };
        if self.ends.unread(opened.identity).is_some() {
            return None;
        }
        let (request, start): (fn(u64) -> Request, _) = match by {
            By::Reader => (Request::Carries, START),
            By::Asker(_) => (Request::CarriesRelayed, START_OF_SERVED),
        };
        let accept = |reply| match reply {
            Reply::Carries(carries) => Some(carries),
            _ => None,
        };
        match self.ask(&opened, (by, start), request, accept) {
            Ok(carries) => carries.flatten(),
            Err(end) => {
                let name = name.to_string_lossy();
                if let Some(why) = self.ends.note(opened.identity, &name, end) {
                    tracing::warn!(
                        "whether {name} carries metadata is not known, so it counts for nothing: {why}; build it or copy it again"
                    );
                }
                None
            }
        }
    }

    /// The build id of an open file that is whole; empty where it has none. Its bytes are read by this process, as for [`Self::carries_served`]: the reader gets no descriptor, and a slow disk is not its fault.
    ///
    /// # Errors
    /// Fails for what is no ELF file or not all of one, and where it is not known.
    pub fn build_id(&mut self, file: File, name: &Path) -> Result<Vec<u8>, Unidentified> {
        let opened = Opened::elf(file).map_err(|_| Unidentified::NotWhole)?;
        if let Some(why) = self.ends.unread(opened.identity) {
            return Err(Unidentified::Unread(why));
        }
        let accept = |reply| match reply {
            Reply::BuildId(build_id) => Some(build_id),
            _ => None,
        };
        let ready = &mut || {};
        let by = By::Asker(ready);
        match self.ask(&opened, (by, START), Request::BuildIdRelayed, accept) {
            Ok(Some(build_id)) => build_id.ok_or(Unidentified::NotWhole),
            Ok(None) => Err(Unidentified::Unread(self.refusal())),
            Err(end) => {
                let why = format!(
                    "the process that reads {} came to its end: {end}",
                    self.duty.reads
                );
                let name = name.to_string_lossy();
                self.ends.note(opened.identity, &name, end);
                Err(Unidentified::Unread(why))
            }
        }
    }

    /// Has a reader be there, before something is done that is only worth it with one.
    ///
    /// # Errors
    /// Fails where none can be started; says why.
    pub fn be_ready(&mut self) -> Result<(), String> {
        match self.reader.alive(Instant::now() + START) {
            Some(_) => Ok(()),
            None => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> String {
        let refusal = self.reader.refusal();
        refusal.unwrap_or_else(|| "nobody reads them".to_owned())
    }

    /// Ends the reader that is there; another one is started when it is needed.
    pub fn rest(&mut self) {
        self.reader.rest();
    }

    /// Whether no reader can be started for want of descriptors or memory.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.reader.is_short()
    }

    /// CPU time that all readers have used.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.reader.cpu_ns())
    }

    /// What all answers have cost whoever has asked: CPU time of readers, and the time for which he waited for those in vain that did not work.
    #[must_use]
    pub fn cost(&self) -> Duration {
        self.cpu() + self.idle
    }

    /// How many readers were ended by what they read, or had to be.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.ends.figures().ended
    }

    /// What the reader says of a file of so many bytes, if that is an answer. Nothing where there is no reader. `start`: how long it may take until one is ready.
    fn ask<T>(
        &mut self,
        opened: &Opened,
        (mut by, start): (By<'_>, Duration),
        request: fn(u64) -> Request,
        accept: impl Fn(Reply) -> Option<T>,
    ) -> Result<Option<T>, End> {
        let Some(process) = self.reader.alive(Instant::now() + start) else {
            return Ok(None);
        };
        if let By::Asker(ready) = &mut by {
            ready();
        }
        let (begin, worked) = (Instant::now(), process.cpu_ns());
        let mut until = begin + self.deadline;
        let size = opened.identity.size();
        let passed = matches!(by, By::Reader).then_some(&opened.file);
        let mut told = process.tell(&request(size), passed, Some(until));
        let end = loop {
            // Of one that always has something to say as well.
            if Instant::now() >= until {
                break End::Late(self.deadline);
            }
            match told.and_then(|()| process.hear(LONGEST_ANSWER, Some(until))) {
                Ok((Reply::Read(at, most), _)) if matches!(by, By::Asker(_)) => {
                    let begin = Instant::now();
                    let piece = piece(&opened.file, at, most);
                    until += begin.elapsed();
                    told = process.tell(&Request::Piece(piece), None, Some(until));
                }
                Ok((reply, _)) => match accept(reply) {
                    Some(told) => return Ok(Some(told)),
                    None => break End::Nonsense,
                },
                Err(error) => break process.end_by(&error, self.deadline),
            }
        };
        let worked = Duration::from_nanos(process.cpu_ns().saturating_sub(worked));
        self.idle += begin.elapsed().saturating_sub(worked);
        self.reader.rest();
        Err(end)
    }
}

/// So many bytes of a file at most; nothing where they cannot be read.
fn piece(file: &File, at: u64, most: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(most.min(PIECE)).ok()?];
    let read = file.read_at(&mut bytes, at).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

#[cfg(test)]
mod tests;

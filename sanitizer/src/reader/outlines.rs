//! The loader's side: what is known of the code of files that a watched process has mapped, read by processes without rights.
//!
//! Each file has a reader of its own, which has seen nothing else before: what is told of it serves other processes as well, and a file that takes its
//! reader over can lie about itself alone. Nobody is held while it is waited for.

mod asked;
mod later;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Program,
    ends::Ends,
    process::End,
    renewed::{Duty, Renewed},
    wire::Told,
};
use crate::{
    image::Raw,
    kernel::foreign::FileIdentity,
    symbols::{Outline, Outlined},
    tracee::modules::{ModuleError, OpenFile, Reads},
};
use asked::{Asked, Failure};
use later::{Later, Pending};

/// How long an answer may take: the largest programs take some seconds.
const DEADLINE: Duration = Duration::from_secs(20);
/// The same for all that is asked together.
const TOGETHER: Duration = Duration::from_mins(1);
/// Why a file is not read.
const NO_TIME: &str = "reading the files before has taken too long";
/// What is known of the files of a process takes no more memory than this, in bytes.
const MOST_KEPT: usize = 256 << 20;
/// What is in no file is kept for the next process if what is known of it takes no more memory than this, in bytes.
const MOST_OF_BYTES: usize = 4 << 20;
const DUTY: Duty = Duty {
    reads: "the code of programs and libraries",
    without: "nothing is watched in files that were not read before",
};

/// What whoever looks is told now and then: the CPU time that readers have used since. He says whether nobody wants to know any more.
type Turn<'a> = &'a mut dyn FnMut(Duration) -> bool;

/// See the module.
#[derive(Debug)]
pub struct OutlineReader {
    reader: Renewed,
    deadline: Duration,
    /// When all that is asked together has to be told.
    limit: Option<Instant>,
    /// By what tells a file from others; the one that is none by nothing.
    ends: Ends<Option<FileIdentity>>,
    /// Memory that is taken by what the process's files have told.
    kept: usize,
    /// What was read, or still is, and serves a later look.
    later: Later,
    /// What was no file, and is the same in most processes of a machine.
    last_bytes: Option<(Vec<u8>, Outlined)>,
    /// What it was when it was asked last, ns.
    spent_ns: u64,
    has_told_refusal: bool,
    warnings: Vec<String>,
}

impl OutlineReader {
    /// They are started when they are needed.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            reader: Renewed::new(program, DUTY),
            deadline: DEADLINE,
            limit: None,
            ends: Ends::new(DUTY.reads),
            kept: 0,
            later: Later::default(),
            last_bytes: None,
            spent_ns: 0,
            has_told_refusal: false,
            warnings: Vec::new(),
        }
    }

    /// Asks from now on for one look at a process whose files take so many bytes already; until it is past.
    pub fn begin<'a>(&'a mut self, kept: usize, turn: Turn<'a>) -> Asking<'a> {
        self.asking(kept, Some(turn))
    }

    /// The same of what is known without asking anybody.
    pub fn begin_at_once(&mut self, kept: usize) -> Asking<'_> {
        self.asking(kept, None)
    }

    fn asking<'a>(&'a mut self, kept: usize, turn: Option<Turn<'a>>) -> Asking<'a> {
        self.limit = Some(Instant::now() + TOGETHER);
        self.kept = kept;
        Asking {
            reader: self,
            turn,
            is_past: false,
            told: Vec::new(),
        }
    }

    /// Whether a reader still reads what nobody waits for: what it tells until it is due is kept. To be asked now and then.
    pub fn is_reading(&mut self) -> bool {
        self.later.collect(&mut self.reader);
        if !self.later.is_reading() {
            self.reader.part();
        }
        self.later.is_reading()
    }

    /// What users are to be told of readers since the last time.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// CPU time that readers have used since the last time.
    pub fn take_cpu(&mut self) -> Duration {
        let now = self.reader.cpu_ns() + self.later.cpu_ns();
        let new = now.saturating_sub(self.spent_ns);
        self.spent_ns += new;
        Duration::from_nanos(new)
    }

    /// Forgets which files have ended readers: none is given up for what another process's has done.
    pub fn rest(&mut self) {
        self.reader.rest();
        self.ends = Ends::new(DUTY.reads);
        self.has_told_refusal = false;
    }

    fn until(&self) -> Instant {
        let until = Instant::now() + self.deadline;
        self.limit.map_or(until, |limit| until.min(limit))
    }

    /// Whether so much time is left that a file can be read in it.
    fn has_time(&self) -> bool {
        self.until().saturating_duration_since(Instant::now()) >= self.deadline / 2
    }

    #[cfg(test)]
    pub(super) fn hurry(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }
}

/// One look at a process. What was told in it is kept for a later one, unless that is [taken](Self::is_taken).
pub struct Asking<'a> {
    reader: &'a mut OutlineReader,
    turn: Option<Turn<'a>>,
    /// Nobody wants to know any more.
    is_past: bool,
    told: Vec<(FileIdentity, Outlined)>,
}

impl Asking<'_> {
    /// The process has now what was told of its files.
    pub fn is_taken(mut self) {
        self.reader.later.forget(&self.told);
        self.told.clear();
    }

    /// Why nobody is asked about a file, which need not be opened then.
    fn check(&mut self, name: &Path, identity: Option<FileIdentity>) -> Result<(), ModuleError> {
        if self.turn.is_none() || self.is_past() {
            return Err(ModuleError::Unasked);
        }
        if identity.is_some_and(|file| self.reader.later.reads(file)) {
            return Ok(());
        }
        let name = name.to_string_lossy();
        let ends = &self.reader.ends;
        if let Some(why) = ends.unread(identity) {
            return Err(ModuleError::Told(given_up(
                &name,
                &why,
                ends.mend(identity),
            )));
        }
        if !self.reader.has_time() {
            return Err(not_yet(&name, NO_TIME));
        }
        if self.reader.reader.process().is_none() && !self.reader.reader.may_start() {
            return Err(self.refused(&name));
        }
        Ok(())
    }

    fn read(
        &mut self,
        bytes: Raw,
        identity: Option<FileIdentity>,
        asked: Option<Asked>,
    ) -> Result<Outlined, ModuleError> {
        bytes.check_elf()?;
        let (mut bytes, outline) = self.outline(bytes, identity, asked)?;
        bytes.close();
        self.kept(Outlined::new(bytes, outline))
    }

    /// Takes what is known of a file, where there is room for it.
    fn kept(&mut self, outlined: Outlined) -> Result<Outlined, ModuleError> {
        let kept = self.reader.kept.saturating_add(outlined.bytes());
        if kept > MOST_KEPT {
            return Err(ModuleError::Told(format!(
                "what is known of {} and of the files before takes more than {} MiB; its code is not watched: watch fewer of the program's libraries",
                outlined.name().display(),
                MOST_KEPT >> 20,
            )));
        }
        self.reader.kept = kept;
        Ok(outlined)
    }

    fn outline(
        &mut self,
        bytes: Raw,
        identity: Option<FileIdentity>,
        mut before: Option<Asked>,
    ) -> Result<(Raw, Outline), ModuleError> {
        let name = bytes.name().to_string_lossy().into_owned();
        loop {
            let mut worked = Duration::ZERO;
            let asked = match before.take() {
                Some(asked) => Ok(asked),
                None => {
                    self.check(bytes.name(), identity)?;
                    self.ask(&bytes, &name)
                }
            };
            let told = match asked {
                Ok(mut asked) => {
                    let told = self.hear(&mut asked);
                    if matches!(told, Err(Failure::Past))
                        && let Some(identity) = identity
                    {
                        // What it tells serves whoever looks next.
                        let pending = Pending::new(identity, bytes, asked);
                        self.reader.later.wait(pending, &mut self.reader.reader);
                        return Err(ModuleError::Unasked);
                    }
                    worked = Duration::from_nanos(asked.process.cpu_ns());
                    // It has seen this file.
                    self.reader.reader.retire_other(asked.process);
                    told
                }
                Err(error) => Err(error),
            };
            let end = match told {
                Ok(Told::Outline(outline)) if outline.is_sound() => return Ok((bytes, *outline)),
                Ok(Told::Nothing(why)) => return Err(ModuleError::Told(why)),
                Ok(Told::Outline(_)) => End::Nonsense,
                Err(Failure::NoReader) => return Err(self.refused(&name)),
                Err(Failure::Unasked) => {
                    return Err(not_yet(&name, "no reader can be asked about it"));
                }
                // The machine had no time for it, or whoever is to give it its bytes.
                Err(Failure::Ended(End::Late(_))) if worked < self.reader.deadline / 2 => {
                    return Err(not_yet(&name, "its reader got too little time"));
                }
                // Nor is it the file's fault that somebody has killed it, as the kernel does where memory is short.
                Err(Failure::Ended(end @ (End::Signal(libc::SIGKILL) | End::Unknown))) => {
                    return Err(not_yet(&name, &format!("its reader has ended: {end}")));
                }
                Err(Failure::Ended(end)) => end,
                Err(Failure::Past) => return Err(ModuleError::Unasked),
            };
            self.reader.ends.note(identity, &name, end);
        }
    }

    /// What is told where no reader can be started: once in a lease.
    fn refused(&mut self, name: &str) -> ModuleError {
        let why = self.reader.reader.refusal();
        let why = why.unwrap_or_else(|| "no reader was ready in time".to_owned());
        if !std::mem::replace(&mut self.reader.has_told_refusal, true) {
            let line = format!("{why}; until it can, {}", DUTY.without);
            self.reader.warnings.push(line);
        }
        not_yet(name, &why)
    }
}

fn not_yet(name: &str, why: &str) -> ModuleError {
    ModuleError::NotYet(format!(
        "{name}: its code is not watched for now: {why}; it is tried again later"
    ))
}

fn given_up(name: &str, why: &str, mend: &str) -> String {
    format!("{name}: its code is not watched: {why}; {mend}")
}

impl Reads<Outlined> for Asking<'_> {
    fn is_past(&mut self) -> bool {
        if let (false, Some(turn)) = (self.is_past, &mut self.turn) {
            self.is_past = turn(self.reader.take_cpu());
        }
        self.is_past
    }

    fn may_read(&mut self, name: &Path, identity: FileIdentity) -> Result<(), ModuleError> {
        match self.reader.later.has(identity) {
            true => Ok(()),
            false => self.check(name, Some(identity)),
        }
    }

    fn file(&mut self, file: OpenFile<'_>) -> Result<Outlined, ModuleError> {
        let identity = file.identity;
        let outlined = match self.reader.later.find(identity) {
            Some(outlined) => self.kept(outlined)?,
            None => {
                self.check(file.name, Some(identity))?;
                let (bytes, asked) = match self.reader.later.take(identity) {
                    Some((bytes, asked)) => (bytes, Some(asked)),
                    None if file.is_served => (Raw::of_served_file(file.file, file.name)?, None),
                    None => (Raw::of_file(file.file, file.name)?, None),
                };
                self.read(bytes, Some(identity), asked)?
            }
        };
        self.told.push((identity, outlined.clone()));
        Ok(outlined)
    }

    fn bytes(&mut self, bytes: Vec<u8>, name: &Path) -> Result<Outlined, ModuleError> {
        if let Some((_, known)) = (self.reader.last_bytes.as_ref()).filter(|last| last.0 == bytes) {
            return self.kept(known.clone());
        }
        self.check(name, None)?;
        let outlined = self.read(Raw::of_bytes(bytes.clone(), name), None, None)?;
        if outlined.bytes() <= MOST_OF_BYTES {
            self.reader.last_bytes = Some((bytes, outlined.clone()));
        }
        Ok(outlined)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        for (identity, outlined) in self.told.drain(..) {
            self.reader.later.keep(identity, outlined);
        }
        self.reader.reader.part();
    }
}

#[cfg(test)]
mod tests;

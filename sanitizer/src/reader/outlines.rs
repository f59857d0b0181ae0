//! The loader's side: what is known of the code of files that a watched process has mapped, read by processes without rights.
//!
//! Each file has a reader of its own, which has seen nothing else before: what is told of it serves other processes as well, and a file that takes its
//! reader over can lie about itself alone. Nobody is held while it is waited for.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Program,
    ends::Ends,
    process::{End, Process},
    renewed::{Duty, Renewed},
    wire::{LONGEST_OUTLINE, Request, Told, brief},
};
use crate::{
    image::{HandedOver, Raw},
    kernel::foreign::FileIdentity,
    symbols::{Outline, Outlined},
    tracee::modules::{ModuleError, OpenFile, Reads},
};

/// How long an answer may take: the largest programs take some seconds.
const DEADLINE: Duration = Duration::from_secs(20);
/// The same for all that is asked together.
const TOGETHER: Duration = Duration::from_mins(1);
/// How often somebody looks whether it is still wanted.
const TURN: Duration = Duration::from_millis(50);
/// The longest reason for which a file is none that has code, in bytes: the name of a file is a part of it.
const LONGEST_WHY: usize = 8 << 10;
/// Why a file is not read.
const NO_TIME: &str = "reading the files before has taken too long";
/// What is known of the files of a process takes no more memory than this, in bytes.
const MOST_KEPT: usize = 256 << 20;
const DUTY: Duty = Duty {
    reads: "the code of programs and libraries",
    without: "nothing is watched in files that were not read before",
};

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
            spent_ns: 0,
            has_told_refusal: false,
            warnings: Vec::new(),
        }
    }

    /// Asks from now on for one look at a process whose files take so many bytes already; until it is past.
    pub fn begin<'a>(
        &'a mut self,
        kept: usize,
        is_past: &'a mut dyn FnMut() -> bool,
    ) -> Asking<'a> {
        self.limit = Some(Instant::now() + TOGETHER);
        self.kept = kept;
        Asking {
            reader: self,
            is_past,
        }
    }

    /// What users are to be told of readers since the last time.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// CPU time that readers have used since the last time.
    pub fn take_cpu(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.spent_ns, self.reader.cpu_ns());
        Duration::from_nanos(self.spent_ns.saturating_sub(before))
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

    /// Whether so much time is left that a reader which does not answer in it is to blame.
    fn has_time(&self) -> bool {
        self.until().saturating_duration_since(Instant::now()) >= self.deadline / 2
    }

    #[cfg(test)]
    pub(super) fn hurry(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }
}

/// One look at a process.
pub struct Asking<'a> {
    reader: &'a mut OutlineReader,
    /// Nobody wants to know any more.
    is_past: &'a mut dyn FnMut() -> bool,
}

/// Why there is no answer.
enum Failure {
    /// No reader can be started.
    NoReader,
    /// The reader came to its end, or had to.
    Ended(End),
    /// Nobody waits for it.
    Past,
}

impl Asking<'_> {
    fn read(
        &mut self,
        mut bytes: Raw,
        identity: Option<FileIdentity>,
    ) -> Result<Outlined, ModuleError> {
        bytes.check_elf()?;
        let outline = self.outline(&bytes, identity)?;
        bytes.close();
        let outlined = Outlined::new(bytes, outline);
        self.reader.kept = self.reader.kept.saturating_add(outlined.bytes());
        if self.reader.kept > MOST_KEPT {
            return Err(ModuleError::Told(format!(
                "what is known of {} and of the files before takes more than {} MiB; its code is not watched: watch fewer of the program's libraries",
                outlined.name().display(),
                MOST_KEPT >> 20,
            )));
        }
        Ok(outlined)
    }

    fn outline(
        &mut self,
        bytes: &Raw,
        identity: Option<FileIdentity>,
    ) -> Result<Outline, ModuleError> {
        let name = bytes.name().to_string_lossy().into_owned();
        loop {
            if let Some(why) = self.reader.ends.unread(identity) {
                return Err(ModuleError::Told(given_up(&name, &why)));
            }
            if !self.reader.has_time() {
                return Err(not_yet(&name, NO_TIME));
            }
            let begin = Instant::now();
            let told = self.ask(bytes);
            // It has seen this file.
            self.reader.reader.retire();
            let end = match told {
                Ok(Told::Outline(outline)) if outline.is_sound() => return Ok(*outline),
                Ok(Told::Nothing(why)) => return Err(ModuleError::Told(brief(why, LONGEST_WHY))),
                Ok(Told::Outline(_)) => End::Nonsense,
                Err(Failure::NoReader) => return Err(self.refused(&name)),
                Err(Failure::Ended(end)) => end,
                Err(Failure::Past) => {
                    return Err(not_yet(&name, "nobody waits for it"));
                }
            };
            // Whoever was asked last had less time than others.
            if !matches!(end, End::Late(_)) || begin.elapsed() >= self.reader.deadline / 2 {
                self.reader.ends.note(identity, &name, end);
            }
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

    fn ask(&mut self, bytes: &Raw) -> Result<Told, Failure> {
        let (until, deadline) = (self.reader.until(), self.reader.deadline);
        let process = self.reader.reader.started(until).ok_or(Failure::NoReader)?;
        let name = bytes.name().to_owned();
        let asked = match bytes.handed_over() {
            HandedOver::File(file, size) => {
                let request = Request::OutlineOfFile(size, name);
                process.tell(&request, Some(file), Some(until))
            }
            HandedOver::Bytes(bytes) => {
                let request = Request::OutlineOfBytes(bytes.to_vec(), name);
                process.tell(&request, None, Some(until))
            }
        };
        match asked {
            Ok(()) => hear(process, (until, deadline), self.is_past),
            Err(error) => Err(Failure::Ended(process.end_by(&error, deadline))),
        }
    }
}

/// Waits for an answer, as long as anybody wants it.
fn hear(
    process: &mut Process,
    (until, deadline): (Instant, Duration),
    is_past: &mut dyn FnMut() -> bool,
) -> Result<Told, Failure> {
    loop {
        let turn = until.min(Instant::now() + TURN);
        let error = match process.hear(LONGEST_OUTLINE, Some(turn)) {
            Ok((told, _)) => return Ok(told),
            Err(error) => error,
        };
        let has_time = error.kind() == std::io::ErrorKind::TimedOut && turn < until;
        if !has_time {
            return Err(Failure::Ended(process.end_by(&error, deadline)));
        }
        if is_past() {
            return Err(Failure::Past);
        }
    }
}

fn not_yet(name: &str, why: &str) -> ModuleError {
    ModuleError::NotYet(format!(
        "{name}: its code is not watched for now: {why}; it is tried again when the program's memory is looked at the next time"
    ))
}

fn given_up(name: &str, why: &str) -> String {
    format!("{name}: its code is not watched: {why}; build it or copy it again")
}

impl Reads<Outlined> for Asking<'_> {
    fn file(&mut self, file: OpenFile<'_>) -> Result<Outlined, ModuleError> {
        let bytes = match file.is_served {
            true => Raw::of_served_file(file.file, file.name)?,
            false => Raw::of_file(file.file, file.name)?,
        };
        self.read(bytes, Some(file.identity))
    }

    fn bytes(&mut self, bytes: Vec<u8>, name: &Path) -> Result<Outlined, ModuleError> {
        self.read(Raw::of_bytes(bytes, name), None)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.reader.reader.part();
    }
}

#[cfg(test)]
mod tests;

//! The daemon's side: opens files, hands them to a reader, asks, and gets over the reader's end.

mod open;
mod persist;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    copier::Copier,
    ends::{Ends, Figures},
    process::{End, Program},
    renewed::{Duty, Renewed},
    wire::{LONGEST_REPLY, Place, Reply, Request, brief},
};
use crate::{
    kernel::limits::explained,
    symbols::{
        Answer, Beside, Facts, FileIdentity, Files, Known, Lack, Looked, ModuleInfo, Question,
        Source, Sources, StackSnapshot, Wanted,
    },
};

/// How long an answer may take. The effort that one may take (`symbols::effort`) is some seconds' work.
const DEADLINE: Duration = Duration::from_secs(15);
/// The same of what is judged: nobody stands meanwhile, but what was caught waits.
const CODE_DEADLINE: Duration = Duration::from_secs(5);
/// The longest answer to such a question, in bytes: what is told of code has a fourth of that.
const LONGEST_CODE: usize = 1 << 20;
/// The longest text of what has been too much, in bytes.
const LONGEST_EXCESS: usize = 256;
/// Files that a reader has open at a time, each with those that belong to it.
const MOST_OPEN: usize = 24;
/// Empty files that a reader gets; then it makes room for another one, and they are gone with it.
const MOST_SCRATCH: usize = 128;

/// What is asked of files.
#[derive(Clone, Copy, Debug)]
struct Purpose {
    duty: Duty,
    /// Makes a reader open a file.
    open: fn(u64, FileIdentity) -> Request,
    deadline: Duration,
    /// The longest answer, in bytes.
    longest: usize,
    /// What reports lack of a file that is read no more, and what to do.
    lacks: &'static str,
    mend: &'static str,
}

const DEBUG_INFORMATION: Purpose = Purpose {
    duty: Duty {
        reads: "debug information",
        without: "reports have addresses only",
    },
    open: Request::Open,
    deadline: DEADLINE,
    longest: LONGEST_REPLY,
    lacks: "addresses only",
    mend: "try its reports on a build without debug information (strip)",
};

const CODE: Purpose = Purpose {
    duty: Duty {
        reads: "tables of basic blocks and live values",
        without: "reports have neither",
    },
    open: Request::OpenForCode,
    deadline: CODE_DEADLINE,
    longest: LONGEST_CODE,
    lacks: "neither basic blocks nor live values",
    mend: "build it without those tables",
};

/// See the module.
#[derive(Debug)]
pub struct Client {
    purpose: Purpose,
    reader: Renewed,
    deadline: Duration,
    /// When all that is asked together has to be told.
    limit: Option<Instant>,
    sources: Sources,
    /// For files of file systems that processes serve.
    copier: Copier,
    /// When it was wanted last.
    wanted: Option<Instant>,
    /// The files that the reader has open, the one that was asked last at the end.
    open: Vec<u64>,
    /// The stack that it knows.
    stack: Option<StackSnapshot>,
    /// Empty files that it got.
    scratch: usize,
    ends: Ends,
    /// What of files was too much, by their numbers.
    excess: HashMap<u64, String>,
}

/// Why there is no answer.
enum Failure {
    /// No reader can be started.
    NoReader,
    /// The file is none that can be read.
    NoFile(String),
    /// The reader came to its end, or had to.
    Ended(End),
}

/// Why nothing is known of a file.
enum Nothing {
    /// It is none.
    NoFile(String),
    /// Nobody reads it; see [`Client::lack`].
    Unread,
}

impl Client {
    /// Readers are started when they are needed.
    #[must_use]
    pub fn new(program: Program, sources: Sources) -> Self {
        Self::of(DEBUG_INFORMATION, program, sources)
    }

    /// The same for questions about code alone ([`Question::Code`]).
    #[must_use]
    pub fn for_code(program: Program, sources: Sources) -> Self {
        Self::of(CODE, program, sources)
    }

    fn of(purpose: Purpose, program: Program, sources: Sources) -> Self {
        Self {
            purpose,
            reader: Renewed::new(program, purpose.duty),
            deadline: purpose.deadline,
            limit: None,
            sources,
            copier: Copier::new(Program::copier()),
            wanted: None,
            open: Vec::new(),
            stack: None,
            scratch: 0,
            ends: Ends::new(purpose.duty.reads),
            excess: HashMap::new(),
        }
    }

    /// CPU time that all readers and copiers have used, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.reader.cpu_ns() + self.copier.cpu_ns()
    }

    /// What has become of readers.
    #[must_use]
    pub const fn figures(&self) -> &Figures {
        self.ends.figures()
    }

    /// Ends the reader, which is started anew when it is needed: it holds memory; and so the copier.
    pub fn rest(&mut self) {
        self.copier.rest();
        self.rest_of_reader();
    }

    /// The same where nobody has wanted it for so long.
    pub fn rest_after(&mut self, time: Duration) {
        if self.wanted.is_some_and(|wanted| wanted.elapsed() >= time) {
            self.wanted = None;
            self.rest();
        }
    }

    fn rest_of_reader(&mut self) {
        self.reader.rest();
        self.open.clear();
        self.stack = None;
        self.scratch = 0;
    }

    /// What users are told of a file that is read no more.
    pub(super) fn given_up(&self, name: &str, why: &str) -> String {
        let Purpose { lacks, mend, .. } = self.purpose;
        format!("of {name} there will be {lacks}: {why}; {mend}")
    }

    /// Why no reader can be started, where that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        let without = self.purpose.duty.without;
        let refusal = self.reader.refusal()?;
        Some(format!("{refusal}; until it can, {without}"))
    }

    #[cfg(test)]
    pub(super) fn hurry(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    #[cfg(test)]
    pub(super) fn reader(&self) -> Option<u32> {
        self.reader.id()
    }

    /// Has a reader there, started if there is none.
    fn start(&mut self) -> Result<(), Failure> {
        self.wanted = Some(Instant::now());
        if self.reader.is_gone() || self.scratch >= MOST_SCRATCH {
            self.rest_of_reader();
        }
        if self.reader.process().is_none() && !self.has_time_to_start() {
            return Err(Failure::NoReader);
        }
        let until = self.until();
        let started = self.reader.started(until);
        started.map(|_| ()).ok_or(Failure::NoReader)
    }

    /// Has the reader do something with a file, and answers what it wants meanwhile.
    fn request(
        &mut self,
        request: &Request,
        source: &Source,
        file: Option<&std::fs::File>,
    ) -> Result<Reply, Failure> {
        let (until, longest) = (self.until(), self.purpose.longest);
        let process = self.reader.process().ok_or(Failure::NoReader)?;
        let mut told = process.tell(request, file, Some(until));
        loop {
            // Of one that always has something to say as well.
            if Instant::now() >= until {
                return Err(Failure::Ended(End::Late(self.deadline)));
            }
            match told.and_then(|()| process.hear(longest, Some(until))) {
                Ok((Reply::Want(wanted), _)) => {
                    self.scratch += usize::from(wanted == Wanted::Scratch);
                    let (place, found) = match source.look(&wanted) {
                        Looked::Found(found) => (Place::Has(found.identity), Some(found.file)),
                        Looked::Nothing => (Place::Empty, None),
                        Looked::NoPlace => (Place::IsNone, None),
                    };
                    // What looking took is not the reader's fault, but a deadline is one.
                    told = process.tell(&Request::Looked(place), found.as_ref(), Some(until));
                }
                Ok((reply, _)) => return Ok(reply),
                Err(error) => return Err(Failure::Ended(process.end_by(&error, self.deadline))),
            }
        }
    }

    /// Has the reader open a file.
    fn take(&mut self, number: u64, source: &Source) -> Result<Facts, Failure> {
        let again = source.opened().again();
        let opened = again.map_err(|error| Failure::NoFile(explained(&error)))?;
        while self.open.len() >= MOST_OPEN {
            let oldest = self.open.remove(0);
            self.say(&Request::Close(oldest))?;
        }
        self.open.push(number);
        let request = (self.purpose.open)(number, opened.identity);
        match self.request(&request, source, Some(&opened.file))? {
            Reply::Opened(Ok(facts)) => Ok(facts),
            Reply::Opened(Err(why)) => {
                self.open.retain(|open| *open != number);
                Err(Failure::NoFile(why))
            }
            _ => Err(Failure::Ended(End::Nonsense)),
        }
    }

    /// Tells the reader something that is not answered.
    fn say(&mut self, request: &Request) -> Result<(), Failure> {
        let until = self.until();
        let process = self.reader.process().ok_or(Failure::NoReader)?;
        (process.tell(request, None, Some(until))).map_err(|_| Failure::Ended(process.end()))
    }

    fn try_ask(
        &mut self,
        file: &Known,
        question: &Question,
        stack: Option<&StackSnapshot>,
    ) -> Result<Option<Answer>, Failure> {
        self.start()?;
        if self.open.contains(&file.number) {
            self.open.retain(|open| *open != file.number);
            self.open.push(file.number);
        } else {
            self.take(file.number, &file.source)?;
        }
        if let Some(stack) = stack
            && self.stack.as_ref() != Some(stack)
        {
            self.say(&Request::Stack(stack.clone()))?;
            self.stack = Some(stack.clone());
        }
        let request = Request::Ask(file.number, question.clone());
        let Reply::Answer(answer, excess) = self.request(&request, &file.source, None)? else {
            return Err(Failure::Ended(End::Nonsense));
        };
        if let Some(excess) = excess {
            self.excess
                .insert(file.number, brief(excess, LONGEST_EXCESS));
        }
        let Some(answer) = answer else {
            return Ok(None);
        };
        let checked = answer.checked(question);
        checked.ok_or(Failure::Ended(End::Nonsense)).map(Some)
    }
}

impl Files for Client {
    fn open(&mut self, module: &ModuleInfo) -> Option<Arc<Known>> {
        let mut sources = std::mem::take(&mut self.sources);
        let opened = self.open_among(&mut sources, module);
        let in_use = |number: &u64| sources.has(*number);
        self.excess.retain(|number, _| in_use(number));
        self.sources = sources;
        opened
            .inspect_err(|error| tracing::debug!(path = %module.path, %error, "no symbols"))
            .ok()
    }

    fn ask(
        &mut self,
        file: &Known,
        question: Question,
        stack: Option<&StackSnapshot>,
    ) -> Option<Answer> {
        let identity = file.source.opened().identity;
        let name = file.source.name().to_owned();
        let attempt = |client: &mut Self| client.try_ask(file, &question, stack);
        self.persist(identity, &name, attempt).ok()?
    }

    fn look_again(&mut self, file: &Known) {
        file.source.look_again();
        if self.open.contains(&file.number) {
            self.open.retain(|open| *open != file.number);
            if self.say(&Request::Close(file.number)).is_err() {
                self.rest_of_reader();
            }
        }
        let source = &file.source;
        // If it fails, so does the next question.
        let _ = self.persist(source.opened().identity, source.name(), |client| {
            client.start()?;
            client.take(file.number, source)
        });
    }

    fn lack(&self, file: &Known) -> Option<Lack> {
        if let Some(why) = self.ends.unread(file.source.opened().identity) {
            return Some(Lack::Unread(why));
        }
        if let Some(excess) = self.excess.get(&file.number) {
            return Some(Lack::Excess(excess.clone()));
        }
        self.reader.refusal().map(Lack::Unread)
    }
}

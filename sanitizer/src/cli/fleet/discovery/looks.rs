//! Looks at processes, by a thread of their own. What a look asks may be in the hands of others, who need not answer: a file system that has fallen silent, the address space of a process. So
//! nobody waits for a look, and one that takes too long *hangs*: it is left to itself, with its thread and the reader that this has for headers of files, and another thread, with another reader, looks at the
//! other processes.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::debug;

use super::is_dull;
use crate::{
    cli::fleet::survey::{Found, Surveyor},
    fleet::rule::Rules,
    kernel::{executed::Executed, process::thread_cpu_time_ns},
    reader::HeaderReader,
};

/// A look that takes longer hangs. Those at processes with as many mappings and files as are looked at take less than a second, unless a reader is waited for.
pub const LONGEST: Duration = Duration::from_secs(10);
const _: () = assert!(LONGEST.as_millis() > HeaderReader::LONGEST.as_millis());
/// So many looks may hang. Nobody is looked at any more then, until one of them comes to its end.
pub const MOST_HUNG: usize = 16;
/// So many processes are asked about at a time, so that the thread has something to do while its answers are taken in.
const MOST_ASKED: usize = 16;

/// What is asked about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// What it is, and the verdict on it. With what it was told to execute, if it was.
    Look(Option<Executed>),
    /// Whether it is to be watched still, if it has executed this: device and inode.
    IsWanted((u64, u64)),
}

/// What comes of that.
#[derive(Debug)]
pub enum Answer {
    /// Of [`Question::Look`].
    Looked {
        /// Nothing of one that is gone.
        found: Option<Box<Found>>,
        /// The file that it was told to execute has no metadata, and it is left alone for that.
        is_dull: bool,
    },
    /// Of [`Question::IsWanted`].
    IsWanted(bool),
}

/// A question that was answered.
#[derive(Debug)]
pub struct Answered {
    /// The process.
    pub pid: u32,
    /// What was asked.
    pub question: Question,
    /// Nothing where that is of no interest any more.
    pub answer: Option<Answer>,
    /// The CPU time that it took, with that of readers, and the time for which those were waited for in vain.
    pub cost: Duration,
}

/// What those have cost who read headers of files for a thread, so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readers {
    /// CPU time.
    cpu: Duration,
    /// The same, and the time for which they were waited for in vain.
    cost: Duration,
}

/// Answers one question after the other, in a thread, and tells of its readers each time.
pub type Answerer = Box<dyn FnMut(u32, &Question) -> (Answer, Readers) + Send>;

/// A question that waits for its answer.
#[derive(Clone, Debug)]
struct Asked {
    number: u64,
    pid: u32,
    question: Question,
    is_forgotten: bool,
}

/// An answer, with the number of its question.
struct Said {
    number: u64,
    answer: Answer,
    /// See [`Answered`].
    cost: Duration,
    /// CPU time of readers.
    cpu_of_readers: Duration,
}

struct Thread {
    questions: mpsc::Sender<Asked>,
    /// It hangs, and what else it was asked is asked of another one.
    is_left: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

/// A look that hangs.
struct Hung {
    pid: u32,
    handle: JoinHandle<()>,
}

/// See the module.
pub struct Looks {
    /// Makes what answers: for each thread anew, since what one has that hangs is not to be had.
    make: Box<dyn Fn() -> Answerer>,
    /// There is none before the first question, nor where too many looks hang.
    thread: Option<Thread>,
    /// In the order in which they are answered.
    asked: VecDeque<Asked>,
    /// The number of the next question.
    next: u64,
    /// Since when the thread looks at the first one, at the latest.
    since: Instant,
    longest: Duration,
    hung: Vec<Hung>,
    teller: UnboundedSender<Said>,
    told: UnboundedReceiver<Said>,
    /// What was told while somebody waited for it.
    heard: VecDeque<Said>,
    /// What looks that had hung have cost since the last time.
    late: Duration,
    cpu_of_readers: Duration,
}

impl Looks {
    /// By these rules. `reader`: makes one for each thread. Has looked at nobody yet.
    #[must_use]
    pub fn new(rules: Rules, reader: fn() -> HeaderReader) -> Self {
        let make = move || surveyor(rules.clone(), reader());
        Self::by(Box::new(make), LONGEST)
    }

    /// By what this makes. `longest`: a look that takes longer hangs.
    fn by(make: Box<dyn Fn() -> Answerer>, longest: Duration) -> Self {
        let (teller, told) = unbounded_channel();
        Self {
            make,
            thread: None,
            asked: VecDeque::new(),
            next: 0,
            since: Instant::now(),
            longest,
            hung: Vec::new(),
            teller,
            told,
            heard: VecDeque::new(),
            late: Duration::ZERO,
            cpu_of_readers: Duration::ZERO,
        }
    }

    /// How many processes are asked about.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Whether another one may be asked about.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.asked.len() < MOST_ASKED && !self.are_hung()
    }

    /// Whether so many looks hang that nobody is looked at.
    #[must_use]
    pub fn are_hung(&self) -> bool {
        self.hung.len() >= MOST_HUNG
    }

    /// Whether a process is asked about, or a look at it hangs: another one would hang as well.
    #[must_use]
    pub fn are_at(&self, pid: u32) -> bool {
        let mut asked = self.asked.iter().filter(|asked| !asked.is_forgotten);
        asked.any(|asked| asked.pid == pid) || self.hung.iter().any(|hung| hung.pid == pid)
    }

    /// Asks about a process.
    pub fn ask(&mut self, pid: u32, question: Question) {
        let asked = Asked {
            number: self.next,
            pid,
            question,
            is_forgotten: false,
        };
        self.next += 1;
        if self.asked.is_empty() {
            self.since = Instant::now();
        }
        if let Some(thread) = &self.thread {
            thread.ask(&asked);
        }
        self.asked.push_back(asked);
        self.keep_thread();
    }

    /// A process has ended, or executes another program: what was asked about it is of no interest any more.
    pub fn forget(&mut self, pid: u32) {
        for asked in self.asked.iter_mut().filter(|asked| asked.pid == pid) {
            asked.is_forgotten = true;
        }
    }

    /// The next answer, if there is one.
    pub fn next(&mut self) -> Option<Answered> {
        loop {
            let said = self.heard.pop_front().or_else(|| self.told.try_recv().ok());
            let said = said?;
            self.cpu_of_readers += said.cpu_of_readers;
            let asked = self.asked.pop_front_if(|asked| asked.number == said.number);
            if let Some(asked) = asked {
                self.since = Instant::now();
                return Some(Answered {
                    pid: asked.pid,
                    question: asked.question,
                    answer: (!asked.is_forgotten).then_some(said.answer),
                    cost: said.cost,
                });
            }
            // It is that of a look that has hung.
            self.late += said.cost;
        }
    }

    /// What looks that had hung have cost since the last time.
    pub const fn take_late(&mut self) -> Duration {
        std::mem::replace(&mut self.late, Duration::ZERO)
    }

    /// CPU time of those who read headers of files, as far as it was told with answers.
    #[must_use]
    pub const fn cpu_of_readers(&self) -> Duration {
        self.cpu_of_readers
    }

    /// Waits for an answer. May be given up at any time.
    pub async fn answered(&mut self) {
        if self.heard.is_empty() {
            // It is never closed.
            let said = self.told.recv().await;
            self.heard.extend(said);
        }
    }

    /// Goes on without a look that hangs, if there is one: the process at which that is. To be called when all answers were taken.
    pub fn leave_hung(&mut self) -> Option<u32> {
        self.hung.retain(|hung| !hung.handle.is_finished());
        let is_late = self.since.elapsed() > self.longest && !self.asked.is_empty();
        let hung = self.thread.take_if(|_| is_late).and_then(|thread| {
            let pid = self.asked.pop_front()?.pid;
            thread.is_left.store(true, SeqCst);
            let handle = thread.handle;
            self.hung.push(Hung { pid, handle });
            Some(pid)
        });
        self.keep_thread();
        hung
    }

    /// Has a thread for what is asked, as long as not too many hang.
    fn keep_thread(&mut self) {
        if self.thread.is_some() || self.asked.is_empty() || self.are_hung() {
            return;
        }
        let started = Thread::start((self.make)(), self.teller.clone());
        let started = started.inspect_err(|error| debug!("no thread looks at processes: {error}"));
        self.thread = started.ok();
        if let Some(thread) = &self.thread {
            self.since = Instant::now();
            for asked in &self.asked {
                thread.ask(asked);
            }
        }
    }
}

impl Thread {
    fn start(answerer: Answerer, teller: UnboundedSender<Said>) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        let is_left = Arc::new(AtomicBool::new(false));
        let left = Arc::clone(&is_left);
        let handle = std::thread::Builder::new()
            .name("looks".to_owned())
            .spawn(move || answer_all(answerer, &asked, &teller, &left))?;
        Ok(Self {
            questions,
            is_left,
            handle,
        })
    }

    fn ask(&self, asked: &Asked) {
        // Of one that has panicked no answer comes, as of one that hangs.
        let _ = self.questions.send(asked.clone());
    }
}

fn answer_all(
    mut answerer: Answerer,
    asked: &mpsc::Receiver<Asked>,
    teller: &UnboundedSender<Said>,
    is_left: &AtomicBool,
) {
    let mut spent = (thread_cpu_time_ns(), Readers::default());
    for Asked {
        number,
        pid,
        question,
        ..
    } in asked
    {
        if is_left.load(SeqCst) {
            return;
        }
        let (answer, readers) = answerer(pid, &question);
        let (cpu, before) = std::mem::replace(&mut spent, (thread_cpu_time_ns(), readers));
        let cpu = Duration::from_nanos(spent.0.saturating_sub(cpu));
        let said = Said {
            number,
            answer,
            cost: cpu + readers.cost.saturating_sub(before.cost),
            cpu_of_readers: readers.cpu.saturating_sub(before.cpu),
        };
        if teller.send(said).is_err() {
            return;
        }
    }
}

/// Answers by what is found in `/proc` and in files, whose headers this one reads.
pub(super) fn surveyor(rules: Rules, reader: HeaderReader) -> Answerer {
    let mut surveyor = Surveyor::new(rules, reader);
    Box::new(move |pid, question| {
        let answer = match question {
            Question::Look(executed) => {
                let found = surveyor.look(pid);
                let executed = executed
                    .as_ref()
                    .filter(|_| found.as_ref().is_some_and(is_dull));
                Answer::Looked {
                    is_dull: executed.is_some_and(|executed| surveyor.has_seen_none_in(executed)),
                    found: found.map(Box::new),
                }
            }
            Question::IsWanted(program) => {
                Answer::IsWanted(surveyor.is_wanted_still(pid, *program))
            }
        };
        let readers = Readers {
            cpu: surveyor.cpu_of_readers(),
            cost: surveyor.cost_of_readers(),
        };
        (answer, readers)
    })
}

#[cfg(test)]
pub(super) mod tests;

//! Questions about files in file systems that processes serve, put by a thread of its own to a process of its own
//! ([`Copier`]): whoever needs the answers does not wait, and is told when one has come.

use std::{
    collections::{HashMap, HashSet},
    sync::mpsc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::reader::{
    Program,
    copier::{Copier, Question},
};

/// So many questions wait for their answers at most.
const MOST: usize = 1024;
/// An answer holds for so long: what can be found of a process changes.
const HOLDS: Duration = Duration::from_secs(2);
/// The process ends when nobody has asked it anything for so long.
const REST: Duration = Duration::from_secs(60);

/// What is known of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Whether there is metadata; nothing where that cannot be found out.
    Answered(Option<bool>),
    /// It is still to come.
    Pending,
}

/// A question, and the device of the file system that it is about.
type Item = (u64, Question);

struct Answer {
    question: Question,
    carries: Option<bool>,
    /// CPU time that it took whoever has answered.
    cpu: Duration,
}

struct Thread {
    questions: mpsc::Sender<Item>,
    answers: UnboundedReceiver<Answer>,
}

/// See the module.
#[derive(Default)]
pub struct AskedFiles {
    thread: Option<Thread>,
    pending: HashSet<Question>,
    known: HashMap<Question, (Instant, Option<bool>)>,
    has_news: bool,
    /// CPU time of answers that was not taken note of yet.
    cpu: Duration,
    /// Nothing is asked any more.
    is_over: bool,
}

impl AskedFiles {
    /// Whether files carry metadata, in a file system of this device.
    pub fn ask(&mut self, device: u64, question: Question) -> Asked {
        self.hear();
        if let Some(&(since, carries)) = self.known.get(&question)
            && since.elapsed() < HOLDS
        {
            return Asked::Answered(carries);
        }
        if self.pending.contains(&question) && !self.is_over {
            return Asked::Pending;
        }
        if self.is_over || self.pending.len() >= MOST {
            return Asked::Answered(None);
        }
        if self.thread.is_none() {
            self.thread = start();
        }
        let item = (device, question.clone());
        let thread = self.thread.as_ref();
        // It ends where it has panicked.
        if thread.is_none_or(|thread| thread.questions.send(item).is_err()) {
            return Asked::Answered(None);
        }
        self.pending.insert(question);
        Asked::Pending
    }

    /// Waits for an answer. May be given up at any time.
    pub async fn answered(&mut self) {
        let Some(thread) = &mut self.thread else {
            return std::future::pending().await;
        };
        match thread.answers.recv().await {
            Some(answer) => self.take(answer),
            None => std::future::pending().await,
        }
    }

    /// Whether an answer has come since the last time.
    pub fn take_news(&mut self) -> bool {
        self.hear();
        std::mem::take(&mut self.has_news)
    }

    /// CPU time that answers took since the last time.
    pub const fn take_cpu(&mut self) -> Duration {
        std::mem::replace(&mut self.cpu, Duration::ZERO)
    }

    /// Nothing is asked any more, and no answer waited for.
    pub const fn end(&mut self) {
        self.is_over = true;
    }

    fn hear(&mut self) {
        while let Some(answer) = self
            .thread
            .as_mut()
            .and_then(|thread| thread.answers.try_recv().ok())
        {
            self.take(answer);
        }
    }

    fn take(&mut self, answer: Answer) {
        self.known.retain(|_, (since, _)| since.elapsed() < HOLDS);
        self.pending.remove(&answer.question);
        self.cpu += answer.cpu;
        self.has_news = true;
        let answered = (Instant::now(), answer.carries);
        self.known.insert(answer.question, answered);
    }
}

/// Nothing where no thread can be had.
fn start() -> Option<Thread> {
    let (questions, asked) = mpsc::channel();
    let (told, answers) = unbounded_channel();
    std::thread::Builder::new()
        .name("served files".to_owned())
        .spawn(move || answer_all(&asked, &told))
        .inspect_err(|error| tracing::debug!("no thread for served files: {error}"))
        .ok()?;
    Some(Thread { questions, answers })
}

fn answer_all(asked: &mpsc::Receiver<Item>, told: &UnboundedSender<Answer>) {
    let mut copier = Copier::new(Program::copier());
    loop {
        let (device, question) = match asked.recv_timeout(REST) {
            Ok(item) => item,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                copier.rest();
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let before = copier.cpu_ns();
        let carries = copier.carries(device, &question);
        let carries = carries
            .inspect_err(|error| tracing::debug!("{question:?}: {error}"))
            .unwrap_or(None);
        let cpu = Duration::from_nanos(copier.cpu_ns().saturating_sub(before));
        let answer = Answer {
            question,
            carries,
            cpu,
        };
        if told.send(answer).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that an answer which has come is known for a while, that nobody is asked twice, and nobody at all any more after the end.
    #[test]
    fn what_is_asked_once() {
        let question = || Question::Mapped(7, vec![(1, 2)]);
        let (questions, asked) = mpsc::channel();
        let (told, answers) = unbounded_channel();
        let mut files = AskedFiles {
            thread: Some(Thread { questions, answers }),
            ..AskedFiles::default()
        };
        assert_eq!(files.ask(1, question()), Asked::Pending);
        assert_eq!(files.ask(1, question()), Asked::Pending);
        assert_eq!(asked.try_iter().count(), 1);
        assert!(!files.take_news());
        let cpu = Duration::from_micros(5);
        let answer = Answer {
            question: question(),
            carries: Some(true),
            cpu,
        };
        assert!(told.send(answer).is_ok());
        assert!(files.take_news() && !files.take_news());
        assert_eq!((files.take_cpu(), files.take_cpu()), (cpu, Duration::ZERO));
        let other = Question::Mapped(8, Vec::new());
        assert_eq!(files.ask(1, other.clone()), Asked::Pending);
        files.end();
        assert_eq!(files.ask(1, question()), Asked::Answered(Some(true)));
        assert_eq!(files.ask(1, other), Asked::Answered(None));
        assert_eq!(asked.try_iter().count(), 1);
    }
}

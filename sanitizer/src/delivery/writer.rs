//! The thread that writes to the store what comes: one message after the other, each unpacked when it is its turn, so that hostile ones take the memory of one.

use std::{
    error::Error,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    answer::Answer,
    counters::Counters,
    message::{Message, MessageError},
};
use crate::store::{Received, Store, StoreError, millis};

/// After how many seconds those are to try again for whom there is no room.
const BUSY: u64 = 1;
/// The same where the store cannot be written to.
const AWAY: u64 = 10;
/// Messages that are refused are told at most this often.
const PERIOD: Duration = Duration::from_secs(10);

/// A message that waits for its turn.
struct Job {
    body: Vec<u8>,
    /// Who has sent it, for messages.
    from: String,
    answer: oneshot::Sender<Answer>,
}

/// Hands messages to the thread. It ends when all of these are gone.
#[derive(Clone)]
pub struct Writer(mpsc::Sender<Job>);

impl Writer {
    /// Starts the thread. At most `waiting` messages wait for their turn; each may have `most` bytes when it is unpacked.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(
        store: Store,
        most: usize,
        waiting: usize,
        counters: Arc<Counters>,
    ) -> io::Result<(Self, thread::JoinHandle<()>)> {
        let (sender, jobs) = mpsc::channel(waiting.max(1));
        let mut work = Work {
            store,
            most,
            counters,
            told: None,
            untold: 0,
        };
        let thread = thread::Builder::new().name("intake".to_owned());
        let thread = thread.spawn(move || work.go_on(jobs))?;
        Ok((Self(sender), thread))
    }

    /// Has a message written, and waits until it is.
    pub(super) async fn write(&self, body: Vec<u8>, from: String) -> Answer {
        let (answer, answered) = oneshot::channel();
        match self.0.try_send(Job { body, from, answer }) {
            Ok(()) => answered.await.unwrap_or(ENDS),
            Err(mpsc::error::TrySendError::Full(_)) => Answer::Later {
                status: 429,
                seconds: BUSY,
                why: "more messages wait for the store already than may",
            },
            Err(mpsc::error::TrySendError::Closed(_)) => ENDS,
        }
    }

    /// Waits until the thread has ended, which it does of itself where gwp-race is wrong alone.
    pub async fn ended(&self) {
        self.0.closed().await;
    }
}

/// The thread is not there any more.
const ENDS: Answer = Answer::Later {
    status: 503,
    seconds: AWAY,
    why: "the collector comes to its end",
};

/// What the thread has.
struct Work {
    store: Store,
    most: usize,
    counters: Arc<Counters>,
    /// When it was told last that a message was refused, and how many were since.
    told: Option<Instant>,
    untold: u64,
}

impl Work {
    fn go_on(&mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(job) = jobs.blocking_recv() {
            let answer = match Message::decode(&job.body, self.most) {
                Ok(message) => self.write(message, &job.from),
                Err(error) => self.refuse(&error, &job.from),
            };
            let is_away = matches!(answer, Answer::Later { .. });
            // Who has gone meanwhile sends it again.
            let _ = job.answer.send(answer);
            // Each of the others would wait for the store as long as this one has.
            while is_away && let Ok(job) = jobs.try_recv() {
                let _ = job.answer.send(AWAY_NOW);
            }
        }
    }

    fn write(&mut self, mut message: Message, from: &str) -> Answer {
        let now = millis(SystemTime::now());
        message.end_at(now);
        let Message { batch, learned, .. } = &message;
        let mut received = (self.store).receive_all(&message.stamp(), batch, learned, now);
        if let Err(error) = &received
            && !learned.is_empty()
            && error.is_about_contents()
        {
            // Nothing else may be lost for it, or wait for it.
            self.tell("what it has learned is not taken", error, from);
            self.counters.not_learned();
            received = self.store.receive(&message.stamp(), batch, now);
        }
        self.tell_state(received.as_ref().err());
        let (sender, sequence) = (&message.sender, message.sequence);
        match received {
            Ok(Received::New {
                records,
                passed_over,
            }) => {
                tracing::info!(sender, sequence, from, records, passed_over, "taken");
                Answer::Taken {
                    records,
                    passed_over,
                }
            }
            Ok(Received::Before) => {
                tracing::info!(sender, sequence, from, "had come before");
                Answer::Before
            }
            Err(_) => AWAY_NOW,
        }
    }

    /// Tells once that the store cannot be written to, and once that it can be again.
    fn tell_state(&self, error: Option<&StoreError>) {
        match (self.counters.set_away(error.is_some()), error) {
            (true, Some(error)) => {
                tracing::warn!("hosts are told to send again later what they send now: {error}");
            }
            (true, None) => tracing::warn!("the store can be written to again"),
            (false, _) => {}
        }
    }

    fn refuse(&mut self, error: &MessageError, from: &str) -> Answer {
        self.tell("it is refused", error, from);
        Answer::Refused {
            status: error.status(),
            why: error.to_string(),
        }
    }

    /// Tells what becomes of a message, unless that was just told of another one.
    fn tell(&mut self, what: &str, error: &dyn Error, from: &str) {
        if self.told.is_none_or(|told| told.elapsed() >= PERIOD) {
            let others = match self.untold {
                0 => String::new(),
                others => format!(" (and {others} others before)"),
            };
            tracing::warn!("a message from {from}: {what}{others}: {error}");
            (self.told, self.untold) = (Some(Instant::now()), 0);
        } else {
            self.untold += 1;
        }
    }
}

/// The store cannot be written to.
const AWAY_NOW: Answer = Answer::Later {
    status: 503,
    seconds: AWAY,
    why: "the store cannot be written to now",
};

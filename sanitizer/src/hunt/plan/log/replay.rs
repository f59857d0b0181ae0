//! The same again: whether a planner that hears what is in a log answers as it did then.

use std::{collections::BTreeMap, fmt, io::BufRead, time::Duration};

use super::{
    Record,
    file::{LogError, Reader},
    text::{answer_in_words, candidates, choice_in_words, deed_in_words, places, seconds},
};
use crate::hunt::plan::{
    Planner,
    action::{Action, Candidate, Then},
    choose::ByWorth,
    event::SiteId,
    prior,
};

/// What a log consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Hunts.
    pub hunts: u64,
    /// Of these, such as were begun with other numbers in the model.
    pub of_other_priors: u64,
    /// Such as have no end: who told of them was killed, or is still at it.
    pub without_end: u64,
    /// Such as went on, while what happened could not be told any more.
    pub lost: u64,
    /// Events.
    pub events: u64,
    /// Decisions.
    pub decisions: u64,
    /// Threads that were stopped.
    pub stops: u64,
}

/// An answer that is not the one of then.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Of which process's hunt.
    pub process: u32,
    /// The number of its record among all of the file, from 1 on.
    pub record: u64,
    /// How long after the first decision of the hunt.
    pub after: Duration,
    /// The hunt was begun with other numbers in the model, which may be why.
    pub of_other_priors: bool,
    /// What it was about.
    pub differs: Differs,
}

/// What was answered then, and what is answered now.
#[derive(Clone, Debug, PartialEq)]
pub enum Differs {
    /// What to do next.
    Decision {
        /// Then.
        logged: Action,
        /// Now.
        now: Action,
    },
    /// What to do with a thread.
    Stop {
        /// Where it stood, or could come.
        ahead: Vec<SiteId>,
        /// Then.
        logged: Option<(SiteId, Then)>,
        /// Now.
        now: Option<(SiteId, Then)>,
    },
    /// Which of those to take that are off their processors.
    Preempted {
        /// What they were about to access.
        all: Vec<Candidate>,
        /// Then.
        logged: Option<(usize, Duration)>,
        /// Now.
        now: Option<(usize, Duration)>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            record,
            after,
            differs,
            ..
        } = self;
        let after = seconds(*after);
        write!(out, "record {record}, process {process}, {after} s: ")?;
        match differs {
            Differs::Decision { logged, now } => {
                let (then, now_too) = (deed_in_words(&logged.deed), deed_in_words(&now.deed));
                let (logged, now) = (logged.id.0, now.id.0);
                write!(out, "#{logged} was \"{then}\", now #{now} is \"{now_too}\"")
            }
            Differs::Stop { ahead, logged, now } => {
                let [logged, now] = [logged, now].map(|answer| answer_in_words(*answer));
                let place = places(ahead);
                write!(
                    out,
                    "for the thread at {place} it was \"{logged}\", now it is \"{now}\""
                )
            }
            Differs::Preempted { all, logged, now } => {
                let [logged, now] = [logged, now].map(|answer| choice_in_words(all, *answer));
                let all = candidates(all);
                write!(
                    out,
                    "of the preempted threads at {all} it was \"{logged}\", now it is \"{now}\""
                )
            }
        }
    }
}

/// Why a log is not the same again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An answer is another one.
    #[error("{0}")]
    Difference(Box<Difference>),
    /// The beginning of a hunt is missing.
    #[error(
        "record {record} is of process {process}, whose hunt has not begun: the log is not whole"
    )]
    WithoutBeginning {
        /// Of which process.
        process: u32,
        /// The number of the record.
        record: u64,
    },
}

/// A hunt that is under way.
struct Hunt {
    planner: ByWorth,
    of_other_priors: bool,
    /// When its first decision was.
    since: Option<Duration>,
}

/// See the module.
#[derive(Default)]
pub struct Replay {
    hunts: BTreeMap<u32, Hunt>,
    records: u64,
    figures: Figures,
}

impl Replay {
    /// Tells the planner of a process what is in the next record, and compares its answer.
    ///
    /// # Errors
    /// Fails where that is another one, and for a record that is of no hunt.
    pub fn take(&mut self, process: u32, record: Record) -> Result<(), ReplayError> {
        self.records += 1;
        if let Record::Begun { seed, priors } = record {
            self.figures.hunts += 1;
            let of_other_priors = priors != prior::fingerprint();
            self.figures.of_other_priors += u64::from(of_other_priors);
            let hunt = Hunt {
                planner: ByWorth::new(seed),
                of_other_priors,
                since: None,
            };
            let before = self.hunts.insert(process, hunt);
            self.figures.without_end += u64::from(before.is_some());
            return Ok(());
        }
        let hunt = self.hunts.get_mut(&process);
        let hunt = hunt.ok_or(ReplayError::WithoutBeginning {
            process,
            record: self.records,
        })?;
        let time = record.time().unwrap_or_default();
        if let Record::Decided(now, ..) = record {
            hunt.since.get_or_insert(now);
        }
        let since = hunt.since.unwrap_or(time);
        let of_other_priors = hunt.of_other_priors;
        let differs = match record {
            Record::Begun { .. } => None,
            Record::Observed(now, event) => {
                self.figures.events += 1;
                hunt.planner.observe(now, &event);
                None
            }
            Record::Decided(now, purse, logged) => {
                self.figures.decisions += 1;
                let now = hunt.planner.decide(now, &purse);
                (now != logged).then_some(Differs::Decision { logged, now })
            }
            Record::Stopped {
                now,
                ahead,
                waited,
                answer: logged,
            } => {
                self.figures.stops += 1;
                let now = hunt.planner.stopped(now, &ahead, waited);
                (now != logged).then_some(Differs::Stop { ahead, logged, now })
            }
            Record::Preempted {
                now,
                all,
                answer: logged,
            } => {
                let now = hunt.planner.preempted(now, &all);
                (now != logged).then_some(Differs::Preempted { all, logged, now })
            }
            Record::Lost | Record::Ended => {
                self.figures.lost += u64::from(record == Record::Lost);
                self.hunts.remove(&process);
                None
            }
        };
        match differs {
            Some(differs) => Err(ReplayError::Difference(Box::new(Difference {
                process,
                record: self.records,
                after: time.saturating_sub(since),
                of_other_priors,
                differs,
            }))),
            None => Ok(()),
        }
    }

    /// What there was, now that the log is at its end.
    #[must_use]
    pub fn end(self) -> Figures {
        Figures {
            without_end: self.figures.without_end + self.hunts.len() as u64,
            ..self.figures
        }
    }
}

/// Tells planners all that is in a log.
///
/// # Errors
/// Fails at the first answer that is not the one of then, and where the log cannot be read on.
pub fn replay<R: BufRead>(log: &mut Reader<R>) -> Result<Figures, ReplayError> {
    let mut replay = Replay::default();
    for record in log {
        let (process, record) = record?;
        replay.take(process, record)?;
    }
    Ok(replay.end())
}

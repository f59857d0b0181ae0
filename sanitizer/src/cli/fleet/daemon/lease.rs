//! A lease while it lasts, or a control in its place, and what there is to say of it when it is over.

use std::{
    rc::Rc,
    time::{Duration, SystemTime},
};

use super::who::Who;
use crate::{
    cli::link::LinkId,
    fleet::schedule::{ProcessId, Reason},
    hunt::wire::Statistics,
};

/// Why a lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The scheduler has ended it.
    Scheduled(Reason),
    /// The process has ended.
    ProcessEnded,
    /// It executes another program.
    Executes,
    /// A signal is about to be delivered to it that may crash it.
    FatalSignal,
    /// The tracer has died, or was ended by its watchdog.
    TracerDied,
    /// The tracer could not watch it, or could not go on.
    Failed,
    /// Somebody has said that it is to be let alone.
    Ignored,
    /// The daemon ends.
    DaemonEnds,
}

impl Why {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled(Reason::Longest) => "longest",
            Self::Scheduled(Reason::Spent) => "spent",
            Self::Scheduled(Reason::Quiet) => "quiet",
            Self::Scheduled(Reason::Displaced) => "displaced",
            Self::Scheduled(Reason::Taken) => "no-slot",
            Self::Scheduled(Reason::Pressure) => "pressure",
            Self::Scheduled(Reason::Breakpoints) => "breakpoints",
            Self::Scheduled(Reason::Paused) => "paused",
            Self::Scheduled(Reason::LeftAlone) => "left-alone",
            Self::ProcessEnded => "process-ended",
            Self::Executes => "executes",
            Self::FatalSignal => "fatal-signal",
            Self::TracerDied => "tracer-died",
            Self::Failed => "failed",
            Self::Ignored => "ignored",
            Self::DaemonEnds => "daemon-ends",
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Lease {
    /// Of this process.
    pub process: ProcessId,
    /// Who that is.
    pub who: Rc<Who>,
    /// The slot that has it; none of a control.
    pub link: Option<LinkId>,
    /// When it began, by the daemon's clock and by the calendar.
    pub began: Duration,
    /// See there.
    pub began_at: SystemTime,
    /// It costs so much at most.
    pub most: Duration,
    /// And at any time at most this share of the CPU time of the process.
    pub share: f64,
    /// The process is watched by processor.
    pub is_by_processor: bool,
    /// The build of the program's file, where the tracer has told it.
    pub build: Option<String>,
    /// Functions of which the tracer was told what is remembered.
    pub remembered: usize,
    /// What it has cost.
    pub cost: Duration,
    /// Stalls.
    pub stalls: u64,
    /// Races that were caught: by places, repeats aside.
    pub caught: u64,
    /// Those of them that were not known before.
    pub new: u64,
    /// Those that wait to be explained.
    pub awaited: u64,
    /// What the tracer has said that could not go on.
    pub said: Option<String>,
    /// It is over: when, by the daemon's clock and by the calendar.
    pub ended: Option<(Duration, SystemTime)>,
    /// When its tracer is killed if it has not got further until then.
    pub deadline: Option<Duration>,
    why: Option<Why>,
    /// Sites that were sampled.
    sampled: u64,
    /// New races that were to be expected.
    expected: f64,
}

/// What has come to a lease since the last time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// What it has cost.
    pub cost: Duration,
    /// Whether sites were sampled that were not before.
    pub is_new: bool,
    /// New races that were to be expected of it.
    pub expected: f64,
}

impl Lease {
    /// One that begins now.
    pub fn new(
        process: ProcessId,
        who: Rc<Who>,
        link: Option<LinkId>,
        now: Duration,
        (most, share): (Duration, f64),
    ) -> Self {
        Self {
            process,
            who,
            link,
            began: now,
            began_at: SystemTime::now(),
            most,
            share,
            is_by_processor: false,
            build: None,
            remembered: 0,
            cost: Duration::ZERO,
            stalls: 0,
            caught: 0,
            new: 0,
            awaited: 0,
            said: None,
            ended: None,
            deadline: None,
            why: None,
            sampled: 0,
            expected: 0.0,
        }
    }

    /// Takes in what the tracer has counted since it began.
    pub fn count(&mut self, statistics: &Statistics) -> Counted {
        let spent: f64 = statistics.spent_s.values().sum();
        let all = Duration::try_from_secs_f64(spent).unwrap_or_default();
        let cost = all.saturating_sub(self.cost);
        self.cost += cost;
        self.stalls = self.stalls.max(statistics.stalls);
        let sampled = statistics.coverage.map_or(0, |(_, sampled)| sampled);
        let is_new = sampled > self.sampled;
        self.sampled = self.sampled.max(sampled);
        let expected = (statistics.expected_races - self.expected).max(0.0);
        self.expected += expected;
        Counted {
            cost,
            is_new,
            expected,
        }
    }

    /// It is to end for this reason; whether none was there before.
    pub fn ends(&mut self, why: Why) -> bool {
        let is_first = self.why.is_none();
        self.why.get_or_insert(why);
        is_first
    }

    /// Why it ends, or has ended.
    pub const fn why(&self) -> Option<Why> {
        self.why
    }

    /// How long it has lasted.
    pub fn lasted(&self, now: Duration) -> Duration {
        let end = self.ended.map_or(now, |(end, _)| end);
        end.saturating_sub(self.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each cost is told once, what was counted twice is not, and the first reason stays.
    #[test]
    fn costs_and_reasons() {
        let who = Rc::new(Who::default());
        let all = (Duration::from_secs(1), 0.05);
        let mut lease = Lease::new(ProcessId(1), who, Some(1), Duration::ZERO, all);
        let counted = |ms: f64, sampled, expected_races| Statistics {
            spent_s: [("stops", ms / 2e3), ("sampling", ms / 2e3)]
                .map(|(what, s)| (what.to_owned(), s))
                .into(),
            coverage: Some((100, sampled)),
            expected_races,
            ..Statistics::default()
        };
        let ms = Duration::from_millis;
        for (statistics, cost, is_new, expected) in [
            (counted(10.0, 2, 0.25), 10, true, 0.25),
            (counted(10.0, 2, 0.25), 0, false, 0.0),
            (counted(30.0, 2, 0.75), 20, false, 0.5),
            (Statistics::default(), 0, false, 0.0),
            (counted(30.0, 3, 0.75), 0, true, 0.0),
        ] {
            let cost = ms(cost);
            let wanted = Counted {
                cost,
                is_new,
                expected,
            };
            assert_eq!(lease.count(&statistics), wanted);
        }
        assert_eq!(lease.cost, ms(30));
        assert!(lease.ends(Why::Ignored) && !lease.ends(Why::ProcessEnded));
        assert_eq!(lease.why().unwrap().name(), "ignored");
    }
}

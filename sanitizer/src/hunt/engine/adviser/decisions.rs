//! What the strategy has decided and what came of it: told to it, counted, and said with `-v`.

use std::collections::BTreeMap;

use crate::hunt::engine::rig::Rig;
use crate::hunt::strategy::{Conflict, Known, Outcome};
use crate::hunt::wire::{Decision, Notice};
use crate::kernel::process::nanos;

use super::Adviser;

/// See the module.
#[derive(Debug)]
pub struct Decisions {
    /// By how it came to a place, and what came of it.
    counts: BTreeMap<(Way, &'static str), u64>,
    /// How it came to the place of the sample in hand.
    pub way: Way,
}

impl Default for Decisions {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            way: Way::Sample,
        }
    }
}

/// How it came to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The clock has stopped a thread somewhere.
    Sample,
    /// It was waited at a site of which this was known.
    Wait(Known),
    /// It has come to a probe that stands.
    Arrival,
    /// A thread was off its processor.
    Preempted,
    /// A variable was watched.
    Variable,
}

impl Way {
    /// Its name in figures.
    const fn name(self) -> &'static str {
        match self {
            Self::Sample => "clock",
            Self::Wait(known) => known.name(),
            Self::Arrival => "arrival",
            Self::Preempted => "preempted",
            Self::Variable => "variable",
        }
    }
}

/// What came of a variable that was watched.
const WRITTEN: &str = "written";
const UNWRITTEN: &str = "unwritten";
/// Somebody was caught before the stall had begun, when its thread was claimed.
const EARLY: &str = "early";

impl Decisions {
    /// The counts by name.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let names = self.counts.iter();
        names
            .map(|((way, outcome), count)| (format!("{}: {outcome}", way.name()), *count))
            .collect()
    }
}

impl Adviser {
    /// A variable was watched for who writes it.
    pub fn saw_writers(&mut self, rig: &mut Rig, variable: u64, writers: &[Conflict]) {
        let outcome = if writers.is_empty() {
            UNWRITTEN
        } else {
            WRITTEN
        };
        *self
            .decisions
            .counts
            .entry((Way::Variable, outcome))
            .or_default() += 1;
        if rig.setup.explain {
            rig.outbox.send(&Notice::Decision(Decision {
                at: variable,
                is_variable: true,
                way: Way::Variable.name().to_owned(),
                outcome: outcome.to_owned(),
                later_ns: None,
                writers: writers.iter().map(|writer| writer.behind).collect(),
            }));
        }
    }

    /// Somebody was caught when the thread in hand was claimed; told beside what came of it.
    pub fn caught_early(&mut self) {
        let counted = (self.decisions.way, EARLY);
        *self.decisions.counts.entry(counted).or_default() += 1;
    }

    /// Something came of a place that the strategy has chosen.
    pub fn came_to(&mut self, rig: &mut Rig, way: Way, site: u64, outcome: Outcome) {
        let counts = &mut self.decisions.counts;
        *counts.entry((way, outcome.name())).or_default() += 1;
        if rig.setup.explain {
            let later_ns = match outcome {
                Outcome::Shared(conflict) => Some(nanos(conflict.distance)),
                _ => None,
            };
            rig.outbox.send(&Notice::Decision(Decision {
                at: site,
                is_variable: false,
                way: way.name().to_owned(),
                outcome: outcome.name().to_owned(),
                later_ns,
                writers: Vec::new(),
            }));
        }
        self.strategy.outcome(site, outcome);
    }
}

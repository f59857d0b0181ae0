//! What the strategy has decided and what came of it: told to it, counted, and said with `-v`.

use std::collections::BTreeMap;

use crate::hunt::strategy::{Conflict, Known, Outcome};
use crate::hunt::wire::Notice;

use super::Engine;

/// See the module.
#[derive(Debug)]
pub(super) struct Decisions {
    /// By how it came to a place, and what came of it.
    counts: BTreeMap<(Way, &'static str), u64>,
    /// How it came to the place of the sample in hand.
    pub(super) way: Way,
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
pub(super) enum Way {
    /// The clock has stopped a thread somewhere.
    Sample,
    /// It was waited at a site of which this was known.
    Wait(Known),
    /// A variable was watched.
    Variable,
}

impl Way {
    /// Its name in figures.
    const fn name(self) -> &'static str {
        match self {
            Self::Sample => "clock",
            Self::Wait(known) => known.name(),
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
    pub(super) fn named(&self) -> BTreeMap<String, u64> {
        let names = self.counts.iter();
        names
            .map(|((way, outcome), count)| (format!("{}: {outcome}", way.name()), *count))
            .collect()
    }
}

impl Engine {
    /// A variable was watched for who writes it.
    pub(super) fn saw_writers(&mut self, variable: u64, writers: &[Conflict]) {
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
        if self.setup.explain {
            let places: Vec<_> = writers
                .iter()
                .map(|writer| format!(" before {}", self.named_place(writer.behind)))
                .collect();
            let variable = self.named_place(variable);
            let text = format!(
                "{variable} ({}): {outcome}{}",
                Way::Variable.name(),
                places.join(",")
            );
            self.outbox.send(&Notice::Decision(text));
        }
    }

    /// Somebody was caught when the thread in hand was claimed; told beside what came of it.
    pub(super) fn caught_early(&mut self) {
        let counted = (self.decisions.way, EARLY);
        *self.decisions.counts.entry(counted).or_default() += 1;
    }

    /// An address in a module, as people are told of it.
    fn named_place(&self, address: u64) -> String {
        self.modules.place(address).map_or_else(
            || format!("{address:#x}"),
            |place| {
                let path = &place.module.module.path;
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{file}+{:#x}", place.link.0)
            },
        )
    }

    /// Something came of a place that the strategy has chosen.
    pub(super) fn came_to(&mut self, way: Way, site: u64, outcome: Outcome) {
        let counts = &mut self.decisions.counts;
        *counts.entry((way, outcome.name())).or_default() += 1;
        if self.setup.explain {
            let place = self.named_place(site);
            let distance = match outcome {
                Outcome::Shared(conflict) => {
                    format!(", {:.1} ms apart", conflict.distance.as_secs_f64() * 1e3)
                }
                _ => String::new(),
            };
            let text = format!("{place} ({}): {}{distance}", way.name(), outcome.name());
            self.outbox.send(&Notice::Decision(text));
        }
        self.strategy.outcome(site, outcome);
    }
}

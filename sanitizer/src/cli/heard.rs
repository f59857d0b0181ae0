//! What is done with what tracers say, whoever has a process watched: findings go to the reporting thread and words to the user, and what comes of a finding goes back.

use tracing::{debug, warn};

use super::{
    link::Link,
    reporter::{Explained, Fate, Meeting, Reporter},
};
use crate::hunt::wire::Notice;

/// What has become of a notice.
#[derive(Debug)]
pub enum Heard {
    /// All is done.
    Done,
    /// It was a race; whether it waits to be explained, or too many others do.
    Race {
        /// See there.
        is_taken: bool,
    },
    /// What it means depends on who has the process watched.
    Else(Box<Notice>),
}

/// Takes in what the tracer of a process has said.
pub fn hear(reporter: &Reporter, pid: u32, notice: Notice) -> Heard {
    match notice {
        Notice::Modules(modules, rights, exe) => reporter.modules(pid, modules, rights, exe),
        Notice::Race(finding, maps) => {
            let is_taken = reporter.race(finding, maps);
            return Heard::Race { is_taken };
        }
        Notice::Repeat { stalled, racing } => reporter.repeat(Meeting {
            pid,
            stalled,
            racing,
        }),
        Notice::Warning(text) => warn!("{text}"),
        Notice::Decision(decision) => reporter.decision(pid, decision),
        Notice::Coverage(functions) => {
            debug!(
                "process {pid}: {} functions were looked at",
                functions.len()
            );
            reporter.coverage(pid, functions);
        }
        Notice::Elsewhere(counted) => reporter.elsewhere(pid, counted),
        Notice::Debug(text) => debug!("{text}"),
        notice => return Heard::Else(Box::new(notice)),
    }
    Heard::Done
}

/// Tells the tracer of a process what has come of a race, and what that has cost.
pub fn answer(link: &mut Link, explained: &Explained) {
    link.charge(explained.cpu_ns);
    if let Fate::Refuted(refuted) = explained.fate {
        link.refute(refuted);
    }
}

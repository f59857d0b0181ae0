//! The processes of a session by their ids, with all that is known of each. Whatever that is, it goes when a process is gone: only the sum
//! of what was counted stays, so that a session may last for days, and an id that is used again tells nothing of who had it before.

use std::collections::{BTreeSet, HashMap};

use super::{descendants::Start, link::LinkId, pauses::Pauses};
use crate::hunt::wire::Statistics;

/// A process that is watched, or was and will be again.
#[derive(Debug, Default)]
pub struct Process {
    /// Its tracer, where it has one at present.
    pub link: Option<LinkId>,
    /// Of a child: its tracer has not watched it yet.
    pub start: Option<Start>,
    /// It was watched at some time.
    pub was_watched: bool,
    /// Tracers that have died before they watched it.
    pub lost_tracers: u32,
    /// Its tracer has said why it ends.
    pub said_farewell: bool,
    /// For how long it was let alone until now.
    pub pauses: Option<Pauses>,
    /// It is let alone at present.
    pub is_paused: bool,
    /// The latest statistics of its tracer.
    current: Option<Statistics>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Watched {
    processes: HashMap<u32, Process>,
    /// Whose tracers they are.
    links: HashMap<LinkId, u32>,
    /// The sum of those whose tracers have ended, or watch others.
    past: Statistics,
    /// Times that a tracer was given a process.
    times: u64,
}

impl Watched {
    /// A tracer is to watch a process.
    pub fn begin(&mut self, pid: u32, link: LinkId) -> &mut Process {
        self.times += 1;
        self.links.insert(link, pid);
        let process = self.processes.entry(pid).or_default();
        process.link = Some(link);
        process.said_farewell = false;
        process
    }

    /// A process of which something is known.
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// Where something is known of it.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.processes.get_mut(&pid)
    }

    /// The process that a tracer watches, or is about to.
    #[must_use]
    pub fn of(&self, link: LinkId) -> Option<u32> {
        self.links.get(&link).copied()
    }

    /// How many have tracers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Times that a tracer was given a process, until now.
    #[must_use]
    pub const fn times(&self) -> u64 {
        self.times
    }

    /// Whether some are let alone at present.
    #[must_use]
    pub fn are_some_paused(&self) -> bool {
        self.processes.values().any(|process| process.is_paused)
    }

    /// Those whose tracers have not watched them yet.
    #[must_use]
    pub fn beginning(&self) -> BTreeSet<u32> {
        let begins = self.processes.iter();
        let begins = begins.filter(|(_, process)| process.start.is_some());
        begins.map(|(&pid, _)| pid).collect()
    }

    /// What the tracer of a process has counted until now.
    pub fn count(&mut self, pid: u32, statistics: Statistics) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.current = Some(statistics);
        }
    }

    /// The tracer of a process is gone, or watches it no more: what that has counted is summed up.
    pub fn end(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            if let Some(link) = process.link.take() {
                self.links.remove(&link);
            }
            if let Some(statistics) = process.current.take() {
                tracing::debug!("process {pid}: {statistics:?}");
                self.past.add(&statistics);
            }
        }
    }

    /// Forgets a process that has no tracer and is not to get one again; whether it was known.
    pub fn forget(&mut self, pid: u32) -> bool {
        let is_over = |process: &Process| process.link.is_none() && !process.is_paused;
        let forgets = self.processes.get(&pid).is_some_and(is_over);
        if forgets {
            self.processes.remove(&pid);
        }
        forgets
    }

    /// All that was counted.
    #[must_use]
    pub fn sum(&self) -> Statistics {
        let mut sum = self.past.clone();
        let current = self.processes.values();
        for statistics in current.filter_map(|process| process.current.as_ref()) {
            sum.add(statistics);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(stalls: u64) -> Statistics {
        Statistics {
            stalls,
            gates: [("traps".to_owned(), 2 * stalls)].into(),
            coverage: Some((10, stalls)),
            target_cpu_s: 0.5,
            ..Statistics::default()
        }
    }

    /// Check that a thousand short children leave nothing but their sum, which is exact, although they share a few ids and tracers.
    #[test]
    fn short_children_leave_a_sum() {
        const CHILDREN: u64 = 1000;
        let mut watched = Watched::default();
        watched.begin(1, 0).was_watched = true;
        for child in 0..CHILDREN {
            let pid = 100 + u32::try_from(child % 7).unwrap();
            let link = 1 + child % 3;
            let process = watched.begin(pid, link);
            assert!(!process.was_watched && process.pauses.is_none());
            process.was_watched = true;
            assert_eq!(watched.of(link), Some(pid));
            // Those of one tracer replace each other.
            watched.count(pid, counted(1));
            watched.count(pid, counted(3));
            if let Some(process) = watched.get_mut(pid) {
                process.said_farewell = true;
            }
            assert_eq!(watched.sum().stalls, 3 * (child + 1));
            watched.end(pid);
            assert_eq!(watched.of(link), None);
            assert!(watched.forget(pid));
            assert!(!watched.forget(pid));
        }
        assert_eq!(watched.processes.len(), 1);
        assert_eq!(watched.links.len(), 1);
        assert_eq!(watched.times(), CHILDREN + 1);
        let sum = watched.sum();
        assert_eq!(sum.stalls, 3 * CHILDREN);
        assert_eq!(sum.gates["traps"], 6 * CHILDREN);
        assert_eq!(sum.coverage, Some((10 * CHILDREN, 3 * CHILDREN)));
        assert!((sum.target_cpu_s - 0.5 * CHILDREN as f64).abs() < 1e-6);
    }

    /// Check that a process which is let alone for a while is not forgotten, and what was counted before stays.
    #[test]
    fn who_is_let_alone_is_remembered() {
        let mut watched = Watched::default();
        watched.begin(7, 1);
        watched.count(7, counted(2));
        watched.get_mut(7).unwrap().is_paused = true;
        watched.end(7);
        assert!(!watched.forget(7));
        assert!(watched.are_some_paused());
        watched.begin(7, 2).is_paused = false;
        watched.count(7, counted(5));
        assert_eq!(watched.sum().stalls, 7);
        watched.end(7);
        assert!(watched.forget(7));
        assert_eq!(watched.sum().stalls, 7);
    }
}

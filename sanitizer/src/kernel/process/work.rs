//! What several threads work for one purpose, in CPU time: those of one lease, of which a process may have several.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use super::{Bell, parent_cpu_time_ns, thread_cpu_time_ns};

thread_local! {
    /// What the calling thread has handed over, ns.
    static HANDED_OVER: Cell<u64> = const { Cell::new(0) };
}

/// CPU time of the thread that asks, and of those that have worked for the same purpose before or beside it, as far as they have
/// [handed it over](Self::hand_over). A clone is the same clock.
#[derive(Clone, Debug)]
pub struct WorkClock {
    handed_over_ns: Arc<AtomicU64>,
    /// So many purposes share the process's parent, which watches over all of them.
    shares: u64,
}

impl WorkClock {
    /// One of so many clocks of a process, at 0.
    #[must_use]
    pub fn of_share(shares: usize) -> Self {
        Self {
            handed_over_ns: Arc::default(),
            shares: shares.max(1) as u64,
        }
    }

    /// So much was worked, ns: it never goes backwards for one thread, and for another one after this one has handed over.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let own = thread_cpu_time_ns().saturating_sub(HANDED_OVER.get());
        self.handed_over_ns.load(SeqCst) + own
    }

    /// This purpose's part of what the process's parent has worked, ns.
    #[must_use]
    pub fn guard_ns(&self) -> u64 {
        parent_cpu_time_ns().unwrap_or_default() / self.shares
    }

    /// Both, ns: of a lease and its part of the watchdog.
    #[must_use]
    pub fn pair_ns(&self) -> u64 {
        self.ns() + self.guard_ns()
    }

    /// Others have worked so much for it, ns.
    pub fn add(&self, ns: u64) {
        self.handed_over_ns.fetch_add(ns, SeqCst);
    }

    /// What the calling thread has worked since it did this last, for whatever purpose, is this one's: a thread says so when it has done a piece of work for it,
    /// and before another one goes on.
    pub fn hand_over(&self) {
        let now = thread_cpu_time_ns();
        let new = now.saturating_sub(HANDED_OVER.replace(now));
        self.handed_over_ns.fetch_add(new, SeqCst);
    }
}

/// For whom a thread works that is not the one which waits for it.
#[derive(Clone, Debug)]
pub struct Employer {
    /// Rings when something is done.
    pub bell: Arc<Bell>,
    /// Of what was worked for it.
    pub clock: WorkClock,
}

impl Employer {
    /// Something is done: what it took is handed over, and it is told.
    pub fn tell(&self) {
        self.clock.hand_over();
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK_NS: u64 = 5_000_000;

    fn work() {
        let end = thread_cpu_time_ns() + WORK_NS;
        while thread_cpu_time_ns() < end {}
    }

    /// Check that what another thread has worked counts once it was handed over, once, and for its own purpose alone.
    #[test]
    fn work_is_handed_over() {
        let (one, other) = (WorkClock::of_share(2), WorkClock::of_share(2));
        one.hand_over();
        let before = one.handed_over_ns.load(SeqCst);
        let helper = one.clone();
        std::thread::spawn(move || {
            work();
            helper.hand_over();
            helper.hand_over();
        })
        .join()
        .unwrap();
        let handed_over = one.handed_over_ns.load(SeqCst) - before;
        assert!(
            (WORK_NS..4 * WORK_NS).contains(&handed_over),
            "{handed_over}"
        );
        work();
        let seen = one.ns();
        assert!(seen >= before + 2 * WORK_NS);
        one.hand_over();
        assert!(one.ns() >= seen);
        assert_eq!(other.handed_over_ns.load(SeqCst), 0);
        // What this thread did is the first one's by now.
        assert!(other.ns() < WORK_NS);
        assert!(one.guard_ns() <= parent_cpu_time_ns().unwrap() / 2 + 1);
    }
}

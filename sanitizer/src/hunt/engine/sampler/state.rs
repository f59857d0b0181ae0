//! What is in hand, and how far it is.

use std::time::Duration;

use crate::hunt::classify::StalledSide;
use crate::hunt::engine::adviser::SeenLocks;
use crate::hunt::engine::rig::{CLAIM_TIME, Standing};
use crate::hunt::engine::waiting::Early;
use crate::hunt::strategy::Patience;
use crate::hunt::watched::Watched;
use crate::kernel::gates::{Hit, Preempted};
use crate::kernel::process::nanos;
use crate::report::finding::Holds;

/// What is in hand.
pub enum State {
    Idle,
    /// The owner runs to an access site.
    Seek {
        tid: u32,
        /// What the strategy calls the place.
        site: u64,
        patience: Patience,
        deadline: u64,
        /// If it has arrived but no stop has come by then, none will.
        void: u64,
    },
    /// The owner stands before its access; others are watched.
    Stalled(Box<Stalled>),
    /// The owner was let go; did it make its access?
    Confirm(Box<Confirm>),
    /// Nobody stands still and no gate does anything: it is still to be seen what the threads that were caught do with their locks.
    Settle {
        confirm: Box<Confirm>,
        completed: bool,
        /// How long that is waited for, CLOCK_MONOTONIC, ns.
        until: u64,
        /// When it is looked next.
        look: u64,
    },
    /// Nobody stands still and no gate does anything: the loader scans the modules.
    Scanning(Purpose),
}

impl State {
    /// A thread runs to a site from now on (CLOCK_MONOTONIC, ns), and is let alone where it has not come there within this time.
    pub fn seek(tid: u32, site: u64, patience: Patience, now: u64, time: Duration) -> Self {
        Self::Seek {
            tid,
            site,
            patience,
            deadline: now + nanos(time),
            void: now + nanos(CLAIM_TIME),
        }
    }

    pub const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// Whether no thread is held, or was for what is in hand: there is time.
    pub const fn holds_nobody(&self) -> bool {
        matches!(self, Self::Idle | Self::Settle { .. } | Self::Scanning(_))
    }

    /// When what is in hand has lasted long enough, CLOCK_MONOTONIC, ns; nothing where it does not end by itself.
    pub fn due(&self) -> Option<u64> {
        match self {
            Self::Idle | Self::Scanning(_) => None,
            Self::Seek { deadline, .. } => Some(*deadline),
            Self::Stalled(stalled) => Some(stalled.look_at_locks.min(stalled.deadline)),
            Self::Confirm(confirm) => Some(confirm.deadline),
            Self::Settle { look, .. } => Some(*look),
        }
    }
}

/// What a scan of the modules is for.
pub enum Purpose {
    /// To begin: the process is new to us, or executes another program.
    Start,
    /// To see what is new.
    Upkeep,
    /// To judge what was caught. Modules may have come and gone since the last look: what the
    /// program counters mean must be what they meant when the accesses were made.
    Judge {
        confirm: Box<Confirm>,
        completed: bool,
    },
}

/// A thread is held, or stands anyway.
pub struct Stalled {
    pub thread: Standing,
    /// Nobody holds it: it is off its processor.
    pub preempted: Option<Preempted>,
    /// What the strategy calls the place.
    pub site: u64,
    pub watched: Watched,
    /// Only writes trap, and reads were to, as well.
    pub is_blind_to_reads: bool,
    pub before: Vec<u8>,
    /// The bytes were watched when it was claimed, and it stands since then.
    pub early: Option<Early>,
    pub opened: u64,
    /// CPU time that the program had used by then, ns, where that was looked at.
    pub used: Option<u64>,
    /// Traps counted before it.
    pub traps: u64,
    /// When to look whether others wait for a lock that it holds.
    pub look_at_locks: u64,
    /// So many were seen to.
    pub waiting: usize,
    /// A racing thread was stopped as well.
    pub has_caught: bool,
    /// What was read of it, where it goes on again.
    pub deep: Option<Deep>,
    pub deadline: u64,
}

impl Stalled {
    /// Since when accesses count, CLOCK_MONOTONIC, ns.
    pub fn since(&self) -> u64 {
        self.early.map_or(self.opened, |early| early.since)
    }
}

/// What can only be read of a racing thread while it stands still as well.
pub struct Deep {
    pub tid: u32,
    /// Its whole stack.
    pub stack: Vec<u8>,
    /// What was seen of its locks.
    pub locks: SeenLocks,
}

/// Somebody was caught, and the thread that was held goes on.
pub struct Confirm {
    pub side: StalledSide,
    /// It was not held, but off its processor: until when it may be, CLOCK_MONOTONIC, ns.
    pub preempted_until: Option<u64>,
    pub hits: Vec<Hit>,
    /// What was seen of the locks of the thread that was held.
    pub stalled_locks: SeenLocks,
    /// The same of the racing thread that has stopped: which one that is.
    pub racing_locks: Option<(u32, SeenLocks)>,
    /// Of its thread.
    pub name: String,
    /// Since when accesses count, and until when, CLOCK_MONOTONIC, ns.
    pub open: std::ops::Range<u64>,
    pub deadline: u64,
}

impl Confirm {
    /// The locks that the thread of a hit held, as far as that is known.
    pub fn holds_at(&mut self, hit: &Hit) -> Holds {
        match &mut self.racing_locks {
            Some((tid, locks)) if hit.stopping && hit.tid == *tid => locks.holds(),
            _ => Holds::default(),
        }
    }

    /// What a thread does with its lock from now on is not seen.
    pub fn unwatch_lock_of(&mut self, tid: u32) {
        if self.side.tid == tid {
            self.stalled_locks.close();
        }
        if let Some((racing, locks)) = &mut self.racing_locks
            && *racing == tid
        {
            locks.close();
        }
    }

    /// The same of both threads.
    pub fn unwatch_locks(&mut self) {
        self.stalled_locks.close();
        if let Some((_, locks)) = &mut self.racing_locks {
            locks.close();
        }
    }

    /// Whether what is judged later is judged as well: what a system call was given may be gone by then.
    pub fn may_wait(&self) -> bool {
        self.hits.iter().all(|hit| !hit.in_kernel)
    }

    /// Whether it is still to be seen what a thread does with a lock.
    pub fn awaits_release(&mut self) -> bool {
        let racing = self.racing_locks.as_mut().map(|(_, locks)| locks);
        let mut all = racing.into_iter().chain([&mut self.stalled_locks]);
        all.any(SeenLocks::is_awaited)
    }

    /// Where accesses are to be judged.
    pub fn judged_places(&self) -> Vec<u64> {
        let mut places = self.places();
        places.push(self.side.watched.pc);
        places
    }

    /// Where the threads stood.
    pub fn places(&self) -> Vec<u64> {
        let racing = self.hits.iter().map(|hit| hit.regs.rip);
        racing.chain([self.side.regs.rip]).collect()
    }
}

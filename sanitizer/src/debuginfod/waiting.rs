//! What the thread that asks and those who wait for it share.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::cache::{MISS, Unfinished};
use crate::kernel::rights::as_caller;

/// How long is waited at a time where nothing says for how long: whoever has a file tells.
const SLICE: Duration = Duration::from_secs(3600);

/// Makes whoever waits come to an end.
#[derive(Clone)]
pub struct Haste(pub(super) Arc<Shared>);

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Something of it was changed that somebody may wait for.
    pub(super) changed: Condvar,
}

/// What has become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is on its way.
    Awaited,
    /// It is in the cache.
    There,
    /// It could not be had then.
    Absent(Instant),
}

impl Outcome {
    /// It cannot be had, as far as is known: what was missing then may be there by now.
    pub(super) fn is_absent(self, now: Instant) -> bool {
        match self {
            Self::Absent(since) => now.saturating_duration_since(since) < MISS,
            Self::Awaited | Self::There => false,
        }
    }

    /// Whether it is to be asked for again.
    pub(super) fn is_old(self, now: Instant) -> bool {
        matches!(self, Self::Absent(_)) && !self.is_absent(now)
    }
}

#[derive(Default)]
pub(super) struct State {
    /// What has become of files, by build ids.
    pub(super) outcomes: HashMap<Vec<u8>, Outcome>,
    /// The thread has not come to an end with a file in the longest time that it may take: the disk does not answer.
    pub(super) is_stuck: bool,
    /// What is being written.
    pub(super) partial: Option<Unfinished>,
    /// When nobody waits any longer.
    pub(super) until: Option<Instant>,
    /// CPU time of the thread, ns.
    pub(super) cpu_ns: u64,
}

impl State {
    /// Nobody waits any longer.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, as long as anybody waits, and until then at most.
    pub(super) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        let until = state.until.into_iter().chain(until).min();
        let left = until.map_or(SLICE, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let waited = self.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// This is being written, or nothing.
    pub(super) fn writes(&self, partial: Option<Unfinished>) {
        self.lock().partial = partial;
    }
}

impl Haste {
    /// From now on all waiting ends within this time.
    pub fn within(&self, time: Duration) {
        self.0.lock().until = Some(Instant::now() + time);
        self.0.changed.notify_all();
    }

    /// What has not come to its end is gone. Where the disk does not answer it stays, and is removed by whoever fetches that file an hour later.
    pub fn discard(&self) {
        let mut state = self.0.lock();
        let is_stuck = state.is_stuck;
        let partial = state.partial.take().filter(|_| !is_stuck);
        drop(state);
        if let Some(partial) = partial {
            // Without the caller's rights it stays as well.
            let _ = as_caller(|| partial.remove());
        }
    }
}

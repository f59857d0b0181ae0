//! What the thread that asks and those who wait for it share.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::cache::Unfinished;
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

#[derive(Default)]
pub(super) struct State {
    /// Whether a file is in the cache, by build ids; nothing of one that is on its way.
    pub(super) outcomes: HashMap<Vec<u8>, Option<bool>>,
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

    /// Waits for a change, as long as anybody waits.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let left = state.until.map_or(SLICE, |until| {
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

    /// What has not come to its end is gone.
    pub fn discard(&self) {
        if let Some(partial) = self.0.lock().partial.take() {
            // Where the caller's rights cannot be taken on it stays until it is old.
            let _ = as_caller(|| partial.remove());
        }
    }
}

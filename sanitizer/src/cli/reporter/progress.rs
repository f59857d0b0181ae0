//! What the reporting thread is about and has found, for others to see at any time, also should it not come to an end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::Tally;
use super::work::lock;

/// See the module.
#[derive(Default)]
pub(super) struct Progress {
    tally: Mutex<Tally>,
    /// It is writing: whoever reads may take his time.
    is_writing: AtomicBool,
}

impl Progress {
    /// What was found.
    pub(super) fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    pub(super) fn tell(&self, tally: Tally) {
        *lock(&self.tally) = tally;
    }

    pub(super) fn is_writing(&self) -> bool {
        self.is_writing.load(SeqCst)
    }

    pub(super) fn set_writing(&self, is_writing: bool) {
        self.is_writing.store(is_writing, SeqCst);
    }
}

//! How much may be read for one question. Debug information says itself how far it goes, and may say so over and
//! over: a million functions that share one list of ranges take hours. So whoever asks begins with a fresh allowance,
//! and whatever is read from a file spends it; when it is gone, reading fails as it does at the end of a file.

use std::cell::Cell;

/// What one question may spend. A question about the largest unit that is read takes a fourth of it; all of it takes
/// some seconds, so there is less for a fuzzer, which asks many of each input.
const MOST: u64 = if cfg!(fuzzing) { 1 << 24 } else { 1 << 32 };
/// What each reading costs beside its bytes.
const EACH: u64 = 16;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(MOST) };
}

/// Begins a question of this thread.
pub(super) fn begin() {
    LEFT.set(MOST);
}

/// Spends what reading `bytes` costs; false where nothing is left to spend.
pub(super) fn spend(bytes: usize) -> bool {
    let left = LEFT.get();
    let rest = left.saturating_sub(EACH.saturating_add(bytes as u64));
    LEFT.set(rest);
    rest > 0
}

/// Whether the question of this thread has spent all, so that its answer is short of something.
pub(super) fn is_spent() -> bool {
    LEFT.get() == 0
}

#[cfg(test)]
pub(super) fn leave(bytes: u64) {
    LEFT.set(bytes);
}

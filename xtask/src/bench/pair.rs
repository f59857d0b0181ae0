//! Measuring in pairs: the machine's speed changes from minute to minute, but little between two runs
//! that follow each other.

use anyhow::Result;

/// Runs both halves of a pair, plain and watched; even pairs begin with the second.
pub fn in_turns<T>(
    pair: usize,
    plain: impl FnOnce() -> Result<T>,
    watched: impl FnOnce() -> Result<T>,
) -> Result<(T, T)> {
    if pair.is_multiple_of(2) {
        let watched = watched()?;
        Ok((plain()?, watched))
    } else {
        Ok((plain()?, watched()?))
    }
}

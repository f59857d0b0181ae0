//! The processors' events, which one lease of a process has at a time: each processor has four breakpoints, and a lease that watches by processor takes two of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

/// Whether somebody has them; a clone is about the same ones.
#[derive(Clone, Debug, Default)]
pub struct Processors {
    are_lent: Arc<AtomicBool>,
}

/// They are lent until this is dropped.
#[derive(Debug)]
pub(super) struct Lent(Arc<AtomicBool>);

impl Processors {
    /// Lends them; `None` while another lease has them.
    pub(super) fn lend(&self) -> Option<Lent> {
        let is_first = !self.are_lent.swap(true, SeqCst);
        is_first.then(|| Lent(Arc::clone(&self.are_lent)))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that one at a time has them, and that they come back.
    #[test]
    fn one_has_them() {
        let (one, another) = (Processors::default(), Processors::default());
        let same = one.clone();
        let lent = one.lend();
        assert!(lent.is_some() && same.lend().is_none() && another.lend().is_some());
        drop(lent);
        assert!(same.lend().is_some() && one.lend().is_some());
    }
}

//! How probes are had that stand: what is asked of the thread that arms them, and what is seen of them.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::probes as abi;

use crate::kernel::KernelError;

use super::{
    Probes, Shared, arm,
    standing::{Change, MOST, Order},
};

impl Probes {
    /// Arms probes that stand until they prove hot; [`Probes::change`] tells of it. Nothing is waited for.
    ///
    /// # Errors
    /// Fails where no thread can be had.
    pub fn stand(&mut self, order: Order) -> Result<(), KernelError> {
        let is_another_process = self.is_another(order.pid);
        self.ask(arm::Task::Stand {
            order,
            is_another_process,
        })
    }

    /// The gate has told that some are hot: they are being removed.
    ///
    /// # Errors
    /// Fails where no thread can be had.
    pub fn remove_hot(&mut self) -> Result<(), KernelError> {
        self.ask(arm::Task::RemoveHot)
    }

    /// None counts from here on, nobody is claimed at any, and all are being removed.
    ///
    /// # Errors
    /// Fails where no thread can be had.
    pub fn clear(&mut self) -> Result<(), KernelError> {
        self.shared.stand_for_nothing();
        if self.thread.is_some() {
            self.ask(arm::Task::Clear)?;
        }
        Ok(())
    }

    /// What has changed of those that stand.
    pub fn change(&mut self) -> Option<Change> {
        self.hear();
        self.changes.pop_front()
    }

    /// Whether too many come to one: it is to be removed.
    #[must_use]
    pub fn is_hot(&self, tag: u32) -> bool {
        self.shared.is_hot(tag)
    }

    /// How often threads of the process have come to one since it stands.
    #[must_use]
    pub fn arrivals(&self, tag: u32) -> u64 {
        self.shared
            .standing(tag)
            .map_or(0, |probe| probe.hits.load(SeqCst))
    }

    /// When too many had come to one, CLOCK_MONOTONIC ns; `None` while that is not so.
    #[must_use]
    pub fn hot_since(&self, tag: u32) -> Option<u64> {
        self.shared.hot_since(tag)
    }

    /// Whoever comes to one is let pass from now on, and only counted; or may be claimed again.
    pub fn spare(&self, tag: u32, spares: bool) {
        if let Some(probe) = self.shared.standing(tag) {
            probe.is_spared.store(spares.into(), SeqCst);
        }
    }
}

impl Shared {
    /// One of those that stand.
    pub(super) fn standing(&self, tag: u32) -> Option<&abi::StandingProbe> {
        let pointer = self.standing.pointer(usize::try_from(tag).ok()?)?;
        // SAFETY: the pointer is into a mapping that lives as long as `self`, and all fields are atomics.
        Some(unsafe { &*pointer })
    }

    /// When too many had come to one of those that stand, CLOCK_MONOTONIC ns; `None` while that is not so.
    fn hot_since(&self, tag: u32) -> Option<u64> {
        let since = self.standing(tag)?.hot_ns.load(SeqCst);
        (since != 0).then_some(since)
    }

    /// Whether too many come to one of those that stand.
    pub(super) fn is_hot(&self, tag: u32) -> bool {
        self.hot_since(tag).is_some()
    }

    /// Nobody is counted or claimed at any of those that stand.
    pub(super) fn stand_for_nothing(&self) {
        for tag in (0..MOST).filter_map(|tag| u32::try_from(tag).ok()) {
            if let Some(probe) = self.standing(tag) {
                probe.turn.store(0, SeqCst);
            }
        }
    }
}

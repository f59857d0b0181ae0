//! What leases have of the processors. Their events are lent to one lease at a time: each processor has four breakpoints, and a lease that watches by processor takes two of them.
//!
//! Where some are left to other tools, nobody is watched by thread meanwhile: beside both kinds none would be left of a processor.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
};

/// Who has them; a clone is about the same ones.
#[derive(Clone, Debug, Default)]
pub struct Processors {
    are_lent: Arc<AtomicBool>,
    users: Arc<Mutex<Users>>,
    leave_some: bool,
}

/// They are lent until this is dropped.
#[derive(Debug)]
pub(super) struct Lent(Arc<AtomicBool>);

/// Whose breakpoints there are.
#[derive(Debug, Default)]
struct Users {
    /// Leases that have some in threads.
    by_thread: usize,
    /// A lease has some on processors.
    by_cpu: bool,
}

/// A lease has breakpoints of this kind until this is dropped.
#[derive(Debug)]
pub(super) struct Use {
    users: Arc<Mutex<Users>>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OfThreads,
    OfProcessors,
}

impl Processors {
    /// Nobody has them. `leave_some`: of the breakpoints, to other tools.
    #[must_use]
    pub fn new(leave_some: bool) -> Self {
        Self {
            leave_some,
            ..Self::default()
        }
    }

    /// Whether some of the breakpoints are left to other tools.
    pub(super) const fn leave_some(&self) -> bool {
        self.leave_some
    }

    /// Lends them; `None` while another lease has them.
    pub(super) fn lend(&self) -> Option<Lent> {
        let is_first = !self.are_lent.swap(true, SeqCst);
        is_first.then(|| Lent(Arc::clone(&self.are_lent)))
    }

    /// A lease has breakpoints of threads from now on, in the place of what it has; false where it may not, and has what it had.
    pub(super) fn use_threads(&self, own: &mut Option<Use>) -> bool {
        self.exchange(own, Kind::OfThreads)
    }

    /// The same for those of processors, which were lent to it.
    pub(super) fn use_processors(&self, own: &mut Option<Use>) -> bool {
        self.exchange(own, Kind::OfProcessors)
    }

    fn exchange(&self, own: &mut Option<Use>, kind: Kind) -> bool {
        if own.as_ref().is_some_and(|own| own.kind == kind) {
            return true;
        }
        let mut users = locked(&self.users);
        if let Some(own) = own {
            users.remove(own.kind);
        }
        let may = !self.leave_some
            || match kind {
                Kind::OfThreads => !users.by_cpu,
                Kind::OfProcessors => !users.by_cpu && users.by_thread == 0,
            };
        match own {
            Some(own) if may => own.kind = kind,
            Some(_) => {}
            None if may => {
                *own = Some(Use {
                    users: Arc::clone(&self.users),
                    kind,
                });
            }
            None => return false,
        }
        if let Some(own) = own {
            users.add(own.kind);
        }
        may
    }
}

impl Users {
    const fn add(&mut self, kind: Kind) {
        match kind {
            Kind::OfThreads => self.by_thread += 1,
            Kind::OfProcessors => self.by_cpu = true,
        }
    }

    const fn remove(&mut self, kind: Kind) {
        match kind {
            Kind::OfThreads => self.by_thread -= 1,
            Kind::OfProcessors => self.by_cpu = false,
        }
    }
}

/// Counts are whole between any two statements.
fn locked(users: &Mutex<Users>) -> MutexGuard<'_, Users> {
    users.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        locked(&self.users).remove(self.kind);
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

    /// Check that where some breakpoints are left to others, no lease has some on processors beside others with some in threads, nor these beside that one; that one alone may change from the one to the other, and that what
    /// is dropped is free; and that otherwise all of it goes.
    #[test]
    fn kinds_are_kept_apart() {
        let all = Processors::new(true);
        let (mut one, mut other) = (None, None);
        assert!(all.use_threads(&mut one) && all.use_threads(&mut one));
        assert!(all.clone().use_threads(&mut other));
        assert!(!all.use_processors(&mut one));
        drop(other.take());
        assert!(all.use_processors(&mut one) && all.use_processors(&mut one));
        assert!(!all.use_threads(&mut other) && !all.use_processors(&mut other));
        assert!(other.is_none());
        assert!(all.use_threads(&mut one) && all.use_threads(&mut other));
        // He that was refused has what he had.
        assert!(!all.use_processors(&mut other));
        drop(one);
        assert!(all.use_processors(&mut other));

        let all = Processors::default();
        let (mut one, mut other) = (None, None);
        assert!(all.use_processors(&mut one) && all.use_threads(&mut other));
    }
}

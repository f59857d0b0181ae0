//! Who has the machine: most runs share it, but a program of hundreds of busy threads leaves nothing to the
//! tests beside it, whose tries then say nothing about gwp-race.

use std::sync::{Condvar, Mutex, PoisonError};

/// How many runs share the machine, and whether one has it for itself.
#[derive(Debug)]
struct Users {
    sharing: usize,
    alone: bool,
}

static USERS: Mutex<Users> = Mutex::new(Users {
    sharing: 0,
    alone: false,
});
static CHANGED: Condvar = Condvar::new();

/// The right to load the machine, until it is dropped.
///
/// Those who share it never wait for one that is still waiting to have it alone, so that a test may have several
/// runs at a time.
#[derive(Debug)]
#[must_use]
pub struct Machine {
    alone: bool,
}

impl Machine {
    /// Waits until nobody has the machine alone.
    pub fn shared() -> Self {
        let mut users = CHANGED
            .wait_while(users(), |users| users.alone)
            .unwrap_or_else(PoisonError::into_inner);
        users.sharing += 1;
        Self { alone: false }
    }

    /// Waits until nobody else has it.
    pub fn alone() -> Self {
        let mut users = CHANGED
            .wait_while(users(), |users| users.alone || users.sharing > 0)
            .unwrap_or_else(PoisonError::into_inner);
        users.alone = true;
        Self { alone: true }
    }
}

/// The state is whole between any two statements, so that a test which failed spoils nothing for the others.
fn users() -> std::sync::MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut users = users();
        if self.alone {
            users.alone = false;
        } else {
            users.sharing -= 1;
        }
        drop(users);
        CHANGED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    /// Check that runs share the machine, and that who has it alone has it alone.
    #[test]
    fn who_is_alone_is_alone() {
        let (sharing, most) = (AtomicU32::new(0), AtomicU32::new(0));
        let first = Machine::shared();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _machine = Machine::shared();
                    let now = sharing.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    sharing.fetch_sub(1, Ordering::SeqCst);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let _machine = Machine::alone();
                    assert_eq!(sharing.fetch_add(1, Ordering::SeqCst), 0);
                    thread::sleep(Duration::from_millis(20));
                    assert_eq!(sharing.fetch_sub(1, Ordering::SeqCst), 1);
                });
            }
            // A second run of a test whose first goes on, while others wait to be alone.
            thread::sleep(Duration::from_millis(10));
            drop(Machine::shared());
            drop(first);
        });
        assert!(most.load(Ordering::SeqCst) > 1);
    }
}

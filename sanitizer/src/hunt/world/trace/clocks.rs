//! What orders two accesses: vector clocks (Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", 2009), with the
//! atomic operations and fences of the C++ memory model (ISO C++20, 6.9.2 and 31.11), and the locks that are held.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::format::Operation;

/// Of each thread, up to which moment its deeds are over; 0 where none are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<u32>);

impl Clock {
    fn of(&self, thread: usize) -> u32 {
        self.0.get(thread).copied().unwrap_or(0)
    }

    fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    fn tick(&mut self, thread: usize) {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        if let Some(own) = self.0.get_mut(thread) {
            *own += 1;
        }
    }
}

/// Locks that are held together, by number. See [`Locks`].
pub type LockSet = u32;

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Held {
    /// Which.
    pub lock: u64,
    /// Others may hold it, too, who read.
    pub shared: bool,
}

/// All sets of locks that any thread held.
#[derive(Clone, Debug)]
pub struct Locks {
    numbers: HashMap<Vec<Held>, LockSet>,
    sets: Vec<Vec<Held>>,
}

impl Default for Locks {
    /// Nothing is held, by the number 0.
    fn default() -> Self {
        Self {
            numbers: HashMap::from([(Vec::new(), 0)]),
            sets: vec![Vec::new()],
        }
    }
}

impl Locks {
    fn number(&mut self, held: &[Held]) -> LockSet {
        if let Some(number) = self.numbers.get(held) {
            return *number;
        }
        let number = self.sets.len() as LockSet;
        self.sets.push(held.to_vec());
        self.numbers.insert(held.to_vec(), number);
        number
    }

    /// The sets, by number.
    #[must_use]
    pub fn sets(&self) -> &[Vec<Held>] {
        &self.sets
    }
}

#[derive(Debug, Default)]
struct Thread {
    clock: Clock,
    /// What relaxed loads have seen: a fence that acquires makes it known.
    pending: Clock,
    /// All before the last fence that releases: a relaxed store after it hands it on.
    fence: Clock,
    held: Vec<Held>,
    lock_set: LockSet,
}

#[derive(Debug, Default)]
struct Object {
    released: Clock,
    /// What readers have released that hold it together: whoever takes it alone is after them, other readers are not.
    by_readers: Clock,
}

/// What is known of the order of all threads' deeds by now.
#[derive(Debug, Default)]
pub struct Clocks {
    threads: Vec<Thread>,
    objects: HashMap<u64, Object>,
    locks: Locks,
}

impl Clocks {
    /// So many threads, none of which has done anything.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let mut clocks = Self::default();
        for number in 0..threads {
            let mut thread = Thread::default();
            thread.clock.tick(number);
            clocks.threads.push(thread);
        }
        clocks
    }

    /// The moment in which a thread is: it ends with what it releases next.
    #[must_use]
    pub fn moment(&self, thread: usize) -> u32 {
        self.threads.get(thread).map_or(0, |of| of.clock.of(thread))
    }

    /// Whether what another thread did in such a moment is before whatever a thread does now.
    #[must_use]
    pub fn is_after(&self, thread: usize, other: usize, moment: u32) -> bool {
        self.threads
            .get(thread)
            .is_some_and(|of| of.clock.of(other) >= moment)
    }

    /// The locks that a thread holds.
    #[must_use]
    pub fn held(&self, thread: usize) -> LockSet {
        self.threads.get(thread).map_or(0, |of| of.lock_set)
    }

    /// All sets of locks that any thread has held.
    #[must_use]
    pub fn into_locks(self) -> Locks {
        self.locks
    }

    /// A thread synchronizes.
    pub fn synchronize(&mut self, number: usize, lock: u64, operation: Operation) {
        let Some(thread) = self.threads.get_mut(number) else {
            return;
        };
        let object = self.objects.entry(lock).or_default();
        let mut releases = false;
        match operation {
            Operation::Lock => {
                thread.clock.join(&object.released);
                thread.clock.join(&object.by_readers);
                thread.held.push(Held {
                    lock,
                    shared: false,
                });
            }
            Operation::LockShared => {
                thread.clock.join(&object.released);
                thread.held.push(Held { lock, shared: true });
            }
            Operation::Unlock => {
                let index = thread.held.iter().rposition(|held| held.lock == lock);
                let held = index.map(|index| thread.held.remove(index));
                if held.is_some_and(|held| held.shared) {
                    object.by_readers.join(&thread.clock);
                } else {
                    object.released.join(&thread.clock);
                }
                releases = true;
            }
            Operation::Release => {
                object.released.join(&thread.clock);
                releases = true;
            }
            Operation::Acquire => thread.clock.join(&object.released),
            Operation::LoadRelaxed => thread.pending.join(&object.released),
            Operation::StoreRelease => {
                object.released.clone_from(&thread.clock);
                releases = true;
            }
            Operation::StoreRelaxed => object.released.clone_from(&thread.fence),
            Operation::Fence {
                acquires,
                releases: hands_on,
            } => {
                if acquires {
                    let pending = std::mem::take(&mut thread.pending);
                    thread.clock.join(&pending);
                }
                if hands_on {
                    thread.fence.clone_from(&thread.clock);
                    releases = true;
                }
            }
            Operation::ReadWrite {
                acquires,
                releases: hands_on,
            } => {
                if acquires {
                    thread.clock.join(&object.released);
                } else {
                    thread.pending.join(&object.released);
                }
                if hands_on {
                    object.released.join(&thread.clock);
                    releases = true;
                } else {
                    object.released.join(&thread.fence);
                }
            }
        }
        if releases {
            thread.clock.tick(number);
        }
        if let Operation::Lock | Operation::LockShared | Operation::Unlock = operation {
            let mut held = thread.held.clone();
            held.sort_unstable();
            held.dedup();
            thread.lock_set = self.locks.number(&held);
        }
    }
}

//! Locks: who waits for one that a stalled thread holds, and who holds one for which others have waited.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::lock::{Form, Words};
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::learned::WaitedFor;
use crate::hunt::strategy::{Holders, Wait};
use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee::KeptFiles;
use crate::tracee::memory;
use crate::tracee::status::Status;
use crate::tracee::threads::LockWait;

use super::Adviser;

/// See the module.
#[derive(Debug)]
pub struct Locks {
    /// Who holds one is spared: in the wait in hand, or since it was stopped.
    are_spared: bool,
    /// The ids of threads that were asked for, in the pid namespace in which they live.
    ids: HashMap<u32, u32>,
    /// What system calls threads are in.
    calls: KeptFiles,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            are_spared: false,
            ids: HashMap::new(),
            calls: LockWait::files(),
        }
    }
}

impl Locks {
    /// A thread has ended: another one may get its id.
    pub fn bury(&mut self, tid: u32) {
        self.ids.remove(&tid);
        self.calls.retain(|kept| kept != as_pid(tid));
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// A thread's id in the pid namespace in which it lives, which is what locks tell.
    pub(super) fn innermost_id(&mut self, pid: Pid, tid: u32) -> Option<u32> {
        if let Some(id) = self.ids.get(&tid) {
            return Some(*id);
        }
        let status = Status::of_thread(pid, as_pid(tid)).ok()?;
        let id = status.namespace_tids.last()?.as_raw().cast_unsigned();
        self.ids.insert(tid, id);
        Some(id)
    }
}

impl Adviser {
    /// How many threads wait for a lock that a stopped one holds, of a part of all threads where there are many.
    pub fn waiting_for_locks_of(&mut self, rig: &mut Rig, tid: u32) -> usize {
        /// Threads looked at, and how long: each takes some microseconds, and the stopped one waits.
        const MOST: usize = 16;
        const TIME: Duration = Duration::from_micros(150);
        let until = monotonic_ns() + nanos(TIME);
        let pid = as_pid(rig.program.pid);
        // Of many, others each time.
        let first = self.random.usize(..rig.arming.len().max(1));
        let tids = rig.arming.tids().skip(first).chain(rig.arming.tids());
        let others = tids.take(rig.arming.len()).filter(|&other| other != tid);
        let others = others.take(MOST).take_while(|_| monotonic_ns() < until);
        let calls = &mut self.locks.calls;
        let waits = others.filter_map(|other| LockWait::of(calls, pid, as_pid(other)));
        let waits: Vec<_> = waits.collect();
        if waits.is_empty() {
            return 0;
        }
        let Some(id) = self.locks.innermost_id(pid, tid) else {
            return 0;
        };
        let held = waits.into_iter().filter_map(|wait| {
            let form = Form::of(words_at(pid, wait.futex)?, id)?;
            Some(form.word(wait.futex))
        });
        held.map(|lock| self.learned.locks.note(lock)).count()
    }

    /// Whether those are spared, this time, who hold a lock for which others have waited: they would again.
    fn spares(&mut self, rig: &Rig) -> bool {
        rig.setup.learns && WaitedFor::spares_holders(&mut self.random)
    }

    /// A thread is stopped, not at the site that was waited at: whether it is spared is not decided yet.
    pub fn decide_on_holders(&mut self, rig: &Rig) {
        self.locks.are_spared = self.spares(rig);
    }

    /// Whether a stopped thread is rather looked at than held, because it holds such a lock.
    pub fn rather_looks(&mut self, rig: &Rig, tid: u32) -> bool {
        if !self.locks.are_spared || self.learned.locks.is_empty() {
            return false;
        }
        let pid = as_pid(rig.program.pid);
        let Some(id) = self.locks.innermost_id(pid, tid) else {
            return false;
        };
        self.learned.locks.all().any(|lock| {
            let (form, futex) = Form::of_word(lock);
            words_at(pid, futex).is_some_and(|words| form.is_held_by(words, id))
        })
    }

    /// Of those who come to a site, and would be made to stand there, the gate claims, as a rule, none who holds a lock for
    /// which others have waited.
    pub fn spare_holders(&mut self, rig: &Rig, wait: &Wait) {
        self.locks.are_spared = wait.holders != Holders::Take && self.spares(rig);
        let spares = wait.holders == Holders::Spare && self.locks.are_spared;
        let locks = &rig.gates.control().site.locks;
        let known = self.learned.locks.all();
        for (place, futex) in locks.known.iter().zip(known.chain(std::iter::repeat(0))) {
            place.store(futex, SeqCst);
        }
        locks.held.store(0, SeqCst);
        locks.spares_holders.store(spares.into(), SeqCst);
    }
}

/// The words of a lock; `None` where they cannot be read.
fn words_at(pid: Pid, futex: u64) -> Option<Words> {
    let mut bytes = [0; size_of::<Words>()];
    if !matches!(
        memory::read_exact(pid, RuntimeAddr(futex), &mut bytes),
        Ok(true)
    ) {
        return None;
    }
    let mut words = Words::default();
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes.try_into().map_or(0, u32::from_ne_bytes);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that other words on which threads wait are not taken for locks of theirs: an id that nobody has marked, as
    /// `pthread_join` waits for, a lock word that is a small number, and a mutex that does not tell its owner.
    #[test]
    fn other_words_tell_no_owner() {
        const MARK: u32 = 1 << 31;
        let cases = [
            ([30, 0, 0], 30, None),
            ([30 | MARK, 0, 0], 30, Some(Form::Within)),
            ([2, 0, 30], 30, Some(Form::Beside)),
            ([1, 0, 7], 1, None),
            ([2, 0, 7], 2, None),
            ([16 | MARK, 1, 0], 16, None),
            ([0, 0, 30], 30, None),
            ([MARK, 0, 0], 0, None),
        ];
        for (words, tid, form) in cases {
            assert_eq!(Form::of(words, tid), form, "{words:?}, {tid}");
        }
        for form in [Form::Beside, Form::Within] {
            assert_eq!(Form::of_word(form.word(0x1238)), (form, 0x1238));
        }
        assert!(Form::Within.is_held_by([30, 0, 7], 30));
        assert!(!Form::Within.is_held_by([2, 0, 30], 30));
        assert!(!Form::Beside.is_held_by([30, 0, 7], 30));
    }

    /// Check that a mutex of the C library tells its owner, and nobody once it is free.
    #[test]
    fn mutexes_tell_their_owner() {
        let mutex = Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let here = nix::unistd::gettid().as_raw().cast_unsigned();
        let held_by = |tid| {
            let words = words_at(Pid::this(), mutex.get() as u64);
            Form::of(words.expect("they can be read"), tid) == Some(Form::Beside)
        };
        assert!(!held_by(here));
        // SAFETY: the mutex is initialized, stays where it is, and only this thread uses it.
        assert_eq!(unsafe { libc::pthread_mutex_lock(mutex.get()) }, 0);
        assert!(held_by(here));
        assert!(!held_by(here + 1));
        // SAFETY: the same; this thread has locked it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex.get()) }, 0);
        assert!(!held_by(here));
    }
}

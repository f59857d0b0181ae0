//! Which threads are held, which are let alone, and which cannot be watched.

use std::collections::VecDeque;

use nix::unistd::Pid;

use super::{Arming, Thread};
use crate::kernel::{KernelError, ptrace};
use crate::tracee::{status::Status, threads::Stat};

/// How often a thread is asked for that is refused for no reason that can be seen.
const TRIES: usize = 4;

impl Arming {
    /// Threads held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Whether no thread is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The threads held.
    pub fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.threads.keys().copied()
    }

    /// Whether a thread is held.
    #[must_use]
    pub fn holds(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Whether a thread is held, or let alone.
    #[must_use]
    pub fn knows(&self, tid: u32) -> bool {
        self.holds(tid) || self.let_alone.contains(&tid)
    }

    /// How many threads are held or let alone.
    #[must_use]
    pub fn known(&self) -> usize {
        self.threads.len() + self.let_alone.len()
    }

    /// Threads that are let alone, those first that are so for longest.
    pub fn are_let_alone(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.let_alone.iter().copied()
    }

    /// A thread is not held any more. It keeps its clock and its watchpoint, where it has some: it can still be who races.
    pub fn let_alone(&mut self, tid: u32) {
        if self.threads.remove(&tid).is_some() {
            self.let_alone.push_back(tid);
        }
    }

    /// Holds a thread again that was let alone; whether it is held now.
    ///
    /// # Errors
    /// Fails where it cannot be traced, and stays let alone.
    pub fn take_back(&mut self, tid: u32) -> Result<bool, KernelError> {
        self.let_alone.retain(|&other| other != tid);
        match self.trace(tid) {
            Ok(()) => {
                self.threads.insert(tid, Thread::default());
                Ok(true)
            }
            Err(error) if error.is_gone() || has_ended(tid) => {
                self.forget(tid);
                Ok(false)
            }
            Err(error) => {
                self.let_alone.push_back(tid);
                Err(error)
            }
        }
    }

    /// Forgets those of them that are not wanted: they have ended.
    pub fn keep_let_alone(&mut self, wanted: impl Fn(u32) -> bool) {
        let (kept, ended) = std::mem::take(&mut self.let_alone)
            .into_iter()
            .partition(|&tid| wanted(tid));
        self.let_alone = kept;
        let ended: VecDeque<u32> = ended;
        for tid in ended {
            self.forget(tid);
        }
    }

    /// Threads that cannot be watched.
    #[must_use]
    pub fn unwatchable(&self) -> usize {
        self.unwatchable.len()
    }

    /// Becomes the tracer of a thread; whether it is held now.
    ///
    /// # Errors
    /// Only for the first thread: a process of which no thread can be held is an error.
    pub fn seize(&mut self, tid: u32) -> Result<bool, KernelError> {
        if self.threads.contains_key(&tid) {
            return Ok(true);
        }
        match self.trace(tid) {
            Ok(()) => {
                self.unwatchable.remove(&tid);
                self.let_alone.retain(|&other| other != tid);
                self.threads.insert(tid, Thread::default());
                Ok(true)
            }
            Err(error) if error.is_gone() || has_ended(tid) => Ok(false),
            Err(error) if self.known() == 0 => Err(error),
            Err(_) => {
                self.unwatchable.insert(tid);
                Ok(false)
            }
        }
    }

    /// Becomes the tracer of a thread. Another one may get this id meanwhile: who executes a program takes the place of the first thread, which is
    /// refused while it ends.
    fn trace(&self, tid: u32) -> Result<(), KernelError> {
        let may_have_changed = || !has_ended(tid) && !is_traced(self.pid, tid);
        for _ in 1..TRIES {
            match ptrace::seize(self.pid, tid) {
                Err(error) if error.is_refusal() && may_have_changed() => {}
                done => return done,
            }
        }
        ptrace::seize(self.pid, tid)
    }

    /// A thread has created another one, which has inherited its events.
    pub fn note_creation(&mut self, creator: u32) {
        self.ancestors.insert(creator);
    }

    /// A thread has ended.
    pub fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
        self.unwatchable.remove(&tid);
        // Closing an event takes it from its heirs as well.
        if !self.ancestors.contains(&tid) {
            self.clocks.forget(tid);
            self.watchpoints.forget(tid);
        }
    }
}

/// Whether somebody is the tracer of a thread.
fn is_traced(pid: u32, tid: u32) -> bool {
    let [pid, tid] = [pid, tid].map(|id| Pid::from_raw(id.cast_signed()));
    Status::of_thread(pid, tid).is_ok_and(|status| status.tracer.is_some())
}

/// A thread that is about to end is refused with `EPERM`. A first one stays in the list while others live, any other is gone by
/// now, as a rule.
fn has_ended(tid: u32) -> bool {
    let tid = Pid::from_raw(tid.cast_signed());
    match Stat::read(tid, tid) {
        Ok(stat) => stat.has_ended(),
        Err(error) => error.is_vanished(),
    }
}

//! What the target's threads stop for: ours, and what is the target's own and passed on.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::{Counter, phase};

use crate::hunt::wire::Ending;
use crate::kernel::gates::Hit;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ptrace;
use crate::kernel::ptrace::Stop;

use super::adviser::SeenLocks;
use super::crew::let_first_receive;
use super::rig::release;
use super::sampler::{Deep, Spot, State};
use super::{Engine, EngineError};

impl Engine {
    /// Handles all stops that have come.
    pub(super) fn on_stops(&mut self) -> Result<(), EngineError> {
        self.crew.begin_own_stops();
        loop {
            match ptrace::peek() {
                Ok(Some((tid, stop))) => self.on_stop(tid, stop)?,
                Ok(None) => return Ok(()),
                Err(error) if error.source.raw_os_error() == Some(libc::ECHILD) => {
                    if self.end_of_process().is_some() {
                        return Ok(());
                    }
                    self.end(Ending::TargetEnded);
                }
                Err(error) => return Err(error.into()),
            }
            if self.ending.is_some() {
                return Ok(());
            }
            // However many signals of its own the target gets, no thread stands longer for it.
            self.on_time()?;
        }
    }

    pub(super) fn on_stop(&mut self, tid: u32, stop: Stop) -> Result<(), EngineError> {
        if !matches!(stop, Stop::Signal(_)) {
            self.sampler.waiting.spoils_claim(&self.rig, tid);
        }
        self.sampler.stops_for_another_reason(&mut self.rig, tid);
        match stop {
            Stop::Exited => {
                // Gone is gone: that nobody is left to wait for is noticed by the next look.
                let _ = ptrace::take(tid);
                // Whether it has created threads, which have inherited its events, may still be
                // among what the gates have told.
                self.on_events()?;
                self.bury(tid);
                self.crew.adoption.saw_end();
            }
            Stop::Exec => {
                acknowledge_exec(tid);
                self.begin_anew(tid)?;
                self.crew.charge_own_stop(&mut self.rig);
            }
            Stop::Group(_) => {
                self.sampler.void_claim(&self.rig, tid);
                // Taken first, because a thread that is listened to cannot be taken.
                let _ = ptrace::take(tid);
                if ptrace::listen(tid).is_err() {
                    release(tid, 0);
                }
                self.crew.charge_own_stop(&mut self.rig);
            }
            Stop::Other(_) => {
                let_first_receive(self.rig.program.pid, tid);
                self.pass_on(tid, 0);
            }
            Stop::Signal(signal) => self.on_signal(tid, signal)?,
        }
        Ok(())
    }

    /// Takes a signal stop that was looked at before; false when the thread has meanwhile been
    /// killed, or was replaced by another one that calls exec.
    pub(super) fn take_signal(&mut self, tid: u32) -> Result<bool, EngineError> {
        match ptrace::take(tid) {
            Ok(Some((_, Stop::Signal(_)))) => return Ok(true),
            Ok(Some((_, Stop::Exec))) => self.begin_anew(tid)?,
            Ok(Some((_, Stop::Exited))) => self.bury(tid),
            // Killed: its end is told of next.
            Ok(Some(_) | None) | Err(_) => {}
        }
        Ok(false)
    }

    /// A thread stands at the end of an exec, which was taken note of.
    fn begin_anew(&mut self, tid: u32) -> Result<(), EngineError> {
        self.on_exec(tid)?;
        release(tid, 0);
        self.begin_watching(true);
        Ok(())
    }

    /// A thread has ended, and its end was noted.
    pub(super) fn bury(&mut self, tid: u32) {
        // Its ring goes with it.
        let may_claim = self.sampler.is_at_rest(&self.rig);
        if self.rig.take_records(may_claim).is_code_unknown {
            self.scan_for_code();
        }
        self.rig.arming.forget(tid);
        self.adviser.locks.bury(tid);
        self.crew.creations.forget(tid);
        self.sampler.void_claim(&self.rig, tid);
        self.sampler.abandon_if_owner(&mut self.rig, tid);
    }

    /// A thread is about to receive a signal: ours, or one of the target's own.
    pub(super) fn on_signal(&mut self, tid: u32, signal: i32) -> Result<(), EngineError> {
        if self.rig.is_of_breakpoint(tid, signal) {
            return self.on_breakpoint(tid);
        }
        if signal == self.rig.our_signal() {
            if self.sampler.is_sample_of(&self.rig, tid) {
                // Taken: the kernel forgets the signal, and holds the thread.
                if self.take_signal(tid)? {
                    self.sampler
                        .on_sample(&mut self.rig, &mut self.adviser, tid);
                } else if !matches!(self.sampler.state, State::Scanning(_)) {
                    // Gone. (One that executes another program has begun anew.)
                    self.sampler.abandon(&mut self.rig);
                    self.sampler.go_idle(&self.rig);
                }
                return Ok(());
            }
            if let State::Stalled(stalled) = &self.sampler.state
                && !stalled.has_caught
            {
                let spot = Spot::new(stalled.watched.pc, stalled.thread.call.as_ref());
                let hits = self.rig.gates.hits(self.sampler.generation);
                let hit = hits.iter().find(|hit| hit.tid == tid && hit.stopping);
                if let Some(hit) = hit.filter(|_| stalled.thread.tid != tid).cloned() {
                    if !self.take_signal(tid)? {
                        return Ok(());
                    }
                    let known = self.sampler.is_known(&self.rig, spot, &hit);
                    let deep = (!known).then(|| self.read_standing(&hit));
                    let since = hit.time_ns;
                    if self.rig.goes_on_past(&hit) {
                        self.sampler.has_caught(deep);
                        self.sampler.shorten_stall();
                        release(tid, 0);
                    } else {
                        self.sampler
                            .end_stall(&mut self.rig, &mut self.adviser, deep);
                        release(tid, 0);
                        self.rig.nobody_stands();
                    }
                    let stood = monotonic_ns().saturating_sub(since);
                    self.rig.budget.charge_stop(self.rig.gates.control(), stood);
                    return Ok(());
                }
            }
        }
        self.sampler.waiting.spoils_claim(&self.rig, tid);
        if self.is_stray(tid, signal) {
            if self.take_signal(tid)? {
                release(tid, 0);
            }
            return Ok(());
        }
        if matches!(&self.sampler.state, State::Confirm(confirm) if confirm.side.tid == tid) {
            // A handler may lead the thread away from its access and back past it.
            self.sampler.end_confirm(&mut self.rig, false);
        }
        if self.rig.may_crash(signal) {
            // The signal was only looked at: when we are gone, the kernel delivers it.
            self.end(Ending::FatalSignal(signal));
            return Ok(());
        }
        self.pass_on(tid, signal);
        Ok(())
    }

    /// A signal of ours that comes when nobody waits for it any more.
    fn is_stray(&self, tid: u32, signal: i32) -> bool {
        let has_probe = |pc| self.profiler.may_have_probe(pc);
        self.rig.is_stray(tid, signal, has_probe)
    }

    /// What can be had of a racing thread while it stands, and a gate cannot copy: more of its stack, and which locks it holds.
    fn read_standing(&mut self, hit: &Hit) -> Deep {
        let stack = self.rig.read_stack(hit.regs.rsp);
        // Another signal may have led it elsewhere.
        let stands_there = ptrace::registers(hit.tid)
            .is_ok_and(|regs| (regs.rip, regs.rsp) == (hit.regs.rip, hit.regs.rsp));
        let locks = match stands_there {
            true => {
                // It stands right behind its access.
                let at = (hit.tid, hit.regs.rip.wrapping_sub(1));
                (self.adviser).held_by(&self.rig, at, &hit.registers(), &stack)
            }
            false => SeenLocks::default(),
        };
        Deep {
            tid: hit.tid,
            stack,
            locks,
        }
    }

    /// The reach gate: has the owner of the sample come to its access site, or passed it? What counts
    /// is where the thread stands, not when the signal was sent.
    fn on_breakpoint(&mut self, tid: u32) -> Result<(), EngineError> {
        let now = monotonic_ns();
        if !self.take_signal(tid)? {
            // Gone, or executing another program: the rest is told of next.
            return Ok(());
        }
        let control = self.rig.gates.control();
        let cost = control.budget.trap_cost_ns.load(SeqCst);
        control.budget.spent_ns.fetch_add(cost, SeqCst);
        let regs = ptrace::registers(tid).unwrap_or_default();
        let has_come = control.claim.owner.load(SeqCst) == u64::from(tid)
            && control.claim.breakpoint.load(SeqCst) == regs.rip;
        let next = self.rig.gates.phase().read().after_arrival();
        match (next.filter(|_| has_come), &self.sampler.state) {
            (Some(phase::REACHED), State::Seek { .. }) => {
                control.claim.time_ns.store(now, SeqCst);
                control.watchdog.standing_since_ns.store(now, SeqCst);
                self.sampler.enter(&self.rig, phase::REACHED);
                self.rig.arming.note_thread_pointer(tid, regs.fs_base);
                self.sampler
                    .on_sample(&mut self.rig, &mut self.adviser, tid);
            }
            (Some(phase::CONFIRMED), State::Confirm(_)) => {
                self.sampler.enter(&self.rig, phase::CONFIRMED);
                release(tid, 0);
                self.sampler.end_confirm(&mut self.rig, true);
            }
            _ => {
                self.rig.add(Counter::ReachSwallowed, 1);
                release(tid, 0);
            }
        }
        Ok(())
    }

    /// Passes on what stops the target's threads while nothing is armed any more; false when a
    /// thread is about to receive a signal that must find it untraced.
    pub fn serve_stops(&mut self) -> bool {
        while let Ok(Some((tid, stop))) = ptrace::peek() {
            match stop {
                Stop::Exited => drop(ptrace::take(tid)),
                Stop::Exec => {
                    acknowledge_exec(tid);
                    release(tid, 0);
                }
                Stop::Other(_) => {
                    let_first_receive(self.rig.program.pid, tid);
                    release(tid, 0);
                }
                Stop::Group(_) => {
                    let _ = ptrace::take(tid);
                    if ptrace::listen(tid).is_err() {
                        release(tid, 0);
                    }
                }
                Stop::Signal(signal)
                    if self.is_stray(tid, signal) || self.rig.is_of_breakpoint(tid, signal) =>
                {
                    release(tid, 0);
                }
                Stop::Signal(signal) if self.rig.may_crash(signal) => return false,
                Stop::Signal(signal) => release(tid, signal),
            }
        }
        true
    }
}

/// Takes note of an exec. A thread that was not its process's first has another id since, and
/// the kernel refuses to continue it under that id until its stop has been waited for
/// (`looks_like_a_spurious_pid` in `kernel/ptrace.c`).
fn acknowledge_exec(tid: u32) {
    let _ = ptrace::take(tid);
}

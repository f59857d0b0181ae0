//! What the target's threads stop for: ours, and what is the target's own and passed on.

use crate::addr::RuntimeAddr;
use crate::hunt::trap_origin::is_own_breakpoint;
use crate::hunt::wire::Ending;
use crate::kernel::perf::Delivery;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ptrace;
use crate::kernel::ptrace::Stop;
use crate::tracee;
use crate::tracee::memory;

use super::first_thread::let_first_receive;
use super::pairs::Spot;
use super::{Engine, EngineError, State, as_pid, release};

impl Engine {
    /// Handles all stops that have come.
    pub(super) fn on_stops(&mut self) -> Result<(), EngineError> {
        for tid in ptrace::reaped() {
            self.bury(tid);
        }
        self.begin_own_stops();
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
            self.spoils_claim(tid);
        }
        match stop {
            Stop::Exited => {
                // Gone is gone: that nobody is left to wait for is noticed by the next look.
                let _ = ptrace::take(tid);
                // Whether it has created threads, which have inherited its events, may still be
                // among what the gates have told.
                self.on_events()?;
                self.bury(tid);
                self.adoption.saw_end();
            }
            Stop::Exec => {
                acknowledge_exec(tid);
                self.begin_anew(tid)?;
                self.charge_own_stop();
            }
            Stop::Group(_) => {
                self.void_claim(tid);
                // Taken first, because a thread that is listened to cannot be taken.
                let _ = ptrace::take(tid);
                if ptrace::listen(tid).is_err() {
                    release(tid, 0);
                }
                self.charge_own_stop();
            }
            Stop::Other(_) => {
                let_first_receive(self.program.pid, tid);
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
        let _ = self.take_records();
        self.arming.forget(tid);
        self.locks.bury(tid);
        self.void_claim(tid);
        self.abandon_if_owner(tid);
    }

    /// A thread is about to receive a signal: ours, or one of the target's own.
    pub(super) fn on_signal(&mut self, tid: u32, signal: i32) -> Result<(), EngineError> {
        if self.is_of_breakpoint(tid, signal) {
            return self.on_breakpoint(tid);
        }
        if signal == self.our_signal() {
            if self.is_sample_of(tid) {
                // Taken: the kernel forgets the signal, and holds the thread.
                if self.take_signal(tid)? {
                    self.on_sample(tid);
                } else if !matches!(self.state, State::Scanning(_)) {
                    // Gone. (One that executes another program has begun anew.)
                    self.abandon();
                    self.go_idle();
                }
                return Ok(());
            }
            if let State::Stalled(stalled) = &self.state
                && !stalled.has_caught
            {
                let spot = Spot::new(stalled.watched.pc, stalled.call.as_ref());
                let hits = self.gates.hits(self.generation);
                let hit = hits.iter().find(|hit| hit.tid == tid && hit.stopping);
                if let Some(hit) = hit.filter(|_| stalled.tid != tid).cloned() {
                    if !self.take_signal(tid)? {
                        return Ok(());
                    }
                    // While it stands, more of its stack can be had than a gate can copy.
                    let known = self.is_known(spot, &hit);
                    let deep = (!known).then(|| (tid, self.read_stack(hit.regs.rsp)));
                    let since = hit.time_ns;
                    if self.goes_on_past(&hit) {
                        self.has_caught(deep);
                        self.shorten_stall();
                        release(tid, 0);
                    } else {
                        self.end_stall(deep);
                        release(tid, 0);
                        self.nobody_stands();
                    }
                    let stood = monotonic_ns().saturating_sub(since);
                    self.budget.charge_stop(self.gates.control(), stood);
                    return Ok(());
                }
            }
        }
        self.spoils_claim(tid);
        if self.is_stray(tid, signal) {
            if self.take_signal(tid)? {
                release(tid, 0);
            }
            return Ok(());
        }
        if matches!(&self.state, State::Confirm(confirm) if confirm.side.tid == tid) {
            // A handler may lead the thread away from its access and back past it.
            self.end_confirm(false);
        }
        if self.may_crash(signal) {
            // The signal was only looked at: when we are gone, the kernel delivers it.
            self.end(Ending::FatalSignal(signal));
            return Ok(());
        }
        self.pass_on(tid, signal);
        Ok(())
    }

    pub(super) fn our_signal(&self) -> i32 {
        match self.arming.delivery() {
            Delivery::Sigtrap => libc::SIGTRAP,
            Delivery::GateSignal(signal) => i32::from(signal),
        }
    }

    /// A signal of ours that comes when nobody waits for it any more: not the target's. It may
    /// come after the delivery was changed, and breakpoints can raise it under either.
    pub(super) fn is_stray(&self, tid: u32, signal: i32) -> bool {
        if signal != libc::SIGTRAP {
            // Ignored by the target anyway, or the gates would not have sent it: passing it on
            // is as good as swallowing it.
            return false;
        }
        let stands_at_breakpoint = |pc: u64| {
            let mut bytes = [0; 2];
            let before = RuntimeAddr(pc.wrapping_sub(1));
            let read = memory::read(as_pid(self.program.pid), before, &mut bytes).unwrap_or(0);
            let around = bytes.get(..read).unwrap_or_default();
            is_own_breakpoint(pc, around, |pc| self.modules.function_code(pc))
        };
        let Ok(info) = ptrace::signal_info(tid) else {
            return false;
        };
        match info.code {
            ptrace::TRAP_PERF => info.perf_data == self.arming.cookie(),
            // A debug exception with an empty status register: seen once in millions of hits.
            // Only the program's own breakpoint instructions do the same.
            ptrace::TRAP_BRKPT => !stands_at_breakpoint(info.address),
            // One that a gate has sent by itself. An `int3` looks the same.
            ptrace::SI_KERNEL => {
                ptrace::registers(tid).is_ok_and(|regs| !stands_at_breakpoint(regs.rip))
            }
            _ => false,
        }
    }

    pub(super) fn may_crash(&self, signal: i32) -> bool {
        const CORE_DUMPING: [i32; 10] = [
            libc::SIGQUIT,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGABRT,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGSEGV,
            libc::SIGSYS,
            libc::SIGXCPU,
            libc::SIGXFSZ,
        ];
        const FAULTS: [i32; 6] = [
            libc::SIGILL,
            libc::SIGABRT,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGSEGV,
            libc::SIGSYS,
        ];
        if !CORE_DUMPING.contains(&signal) {
            return false;
        }
        // A handler of a fault is a crash handler as a rule; of the others it is just a handler.
        let status = tracee::status::Status::of_process(as_pid(self.program.pid));
        let Ok(status) = status else { return true };
        let caught = status.caught.contains_number(signal);
        let ignored = status.ignored.contains_number(signal);
        if caught {
            FAULTS.contains(&signal)
        } else {
            !ignored
        }
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
                    let_first_receive(self.program.pid, tid);
                    release(tid, 0);
                }
                Stop::Group(_) => {
                    let _ = ptrace::take(tid);
                    if ptrace::listen(tid).is_err() {
                        release(tid, 0);
                    }
                }
                Stop::Signal(signal)
                    if self.is_stray(tid, signal) || self.is_of_breakpoint(tid, signal) =>
                {
                    release(tid, 0);
                }
                Stop::Signal(signal) if self.may_crash(signal) => return false,
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

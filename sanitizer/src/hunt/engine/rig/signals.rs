//! Signals and stops: which are ours, which may crash the program, and who may be let alone.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::phase;

use crate::addr::RuntimeAddr;
use crate::hunt::engine::as_pid;
use crate::hunt::trap_origin::is_own_breakpoint;
use crate::kernel::perf::Delivery;
use crate::kernel::ptrace;
use crate::tracee;
use crate::tracee::memory;

use super::Rig;

impl Rig {
    pub fn our_signal(&self) -> i32 {
        match self.arming.delivery() {
            Delivery::Sigtrap => libc::SIGTRAP,
            Delivery::GateSignal(signal) => i32::from(signal),
        }
    }

    /// A signal of ours that comes when nobody waits for it any more: not the target's. It may
    /// come after the delivery was changed, and breakpoints can raise it under either. `has_probe`: whether a probe may stand at an address.
    pub fn is_stray(&self, tid: u32, signal: i32, has_probe: impl Fn(u64) -> bool) -> bool {
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
            is_own_breakpoint(pc, around, |pc| self.modules.function_code(pc), &has_probe)
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

    /// Whether a signal comes from a breakpoint of ours.
    pub fn is_of_breakpoint(&self, tid: u32, signal: i32) -> bool {
        !self.has_gates()
            && [libc::SIGURG, libc::SIGWINCH].contains(&signal)
            && ptrace::signal_info(tid).is_ok_and(|info| {
                info.code == ptrace::POLL_IN && self.arming.is_signalling(info.descriptor)
            })
    }

    pub fn may_crash(&self, signal: i32) -> bool {
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

    /// Whether a thread can be let alone: nothing is in hand for which it is needed. Without gates nobody would tell that it executes
    /// another program.
    pub fn is_dispensable(&self, tid: u32) -> bool {
        let control = self.gates.control();
        let is_idle = matches!(
            self.gates.phase().read().phase(),
            phase::IDLE | phase::CLOSED
        );
        self.has_gates()
            && self.arming.holds(tid)
            && (is_idle || control.claim.owner.load(SeqCst) != u64::from(tid))
    }
}

//! The stalled thread makes its access, and what was caught is judged.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::classify::Circumstances;
use crate::hunt::classify::classify;
use crate::hunt::classify::racing_call;
use crate::hunt::strategy::CodeView as _;
use crate::hunt::wire::Notice;
use crate::kernel::gates::Hit;
use crate::kernel::process::monotonic_ns;
use crate::kernel::process::nanos;
use crate::tracee::memory;
use crate::verdict::Policy;
use crate::verdict::Reason;

use super::pairs::{Seen, Spot};
use super::{Confirm, Engine, Purpose, State, as_pid};

impl Engine {
    /// Whether a thread that was let go makes its access at once, while another one waits for its end.
    pub(super) fn is_confirmed_soon(&self) -> bool {
        const TIME: Duration = Duration::from_millis(2);
        // It may need the processor on which this is executed, at a higher priority.
        const PAUSE: Duration = Duration::from_micros(50);
        let until = monotonic_ns() + nanos(TIME);
        // Without gates its stop would have to be taken.
        while self.gates.phase().is(phase::CONFIRM)
            && monotonic_ns() < until
            && self.substitute.is_none()
        {
            std::thread::sleep(PAUSE);
        }
        self.gates.phase().is(phase::CONFIRMED)
    }

    /// The owner has made its access, or was not seen to.
    pub(super) fn end_confirm(&mut self, completed: bool) {
        let State::Confirm(confirm) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let completed = completed || self.gates.phase().is(phase::CONFIRMED);
        self.arming.unbreak(confirm.side.tid);
        self.begin_scan(Purpose::Judge { confirm, completed }, false);
    }

    pub(super) fn judge(&mut self, confirm: &Confirm, completed: bool) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let circumstances = Circumstances {
            pid: self.program.pid,
            exe: self.program.exe.clone(),
            stalled_name: confirm.name.clone(),
            clock_offset_ns: (now.as_nanos() as u64).wrapping_sub(monotonic_ns()),
            completed,
            open: confirm.open.clone(),
        };
        let memory = memory_of(as_pid(self.program.pid));
        let policy = Policy {
            mixed: self.setup.report_mixed,
            unanalyzed: self.setup.report_unanalyzed,
        };
        let side = &confirm.side;
        let spot = Spot::new(side.watched.pc, side.call.as_ref());
        for hit in &confirm.hits {
            match classify(&self.modules, side, hit, &circumstances, &policy, &memory) {
                Ok(finding) => {
                    let seen = self.seen(spot, hit);
                    if let Some(reason) = self.pairs.refuted(&seen) {
                        self.figures.not_reported(reason.name(), 1);
                        continue;
                    }
                    let is_told_by_pc = self.is_told_by_pc(hit, finding.racing.pc);
                    if !self.pairs.tell(seen, is_told_by_pc) && !self.setup.full_repeats {
                        self.outbox.send(&Notice::Repeat(side.watched.pc));
                    } else {
                        let addresses = [
                            finding.stalled.address,
                            finding.racing.address,
                            finding.watch_address,
                        ];
                        let maps = self.modules.map_infos(&addresses);
                        if !self.outbox.send(&Notice::Race(Box::new(finding), maps)) {
                            self.pairs.take_back(&seen);
                        }
                    }
                }
                Err(reason) => {
                    self.figures.not_reported(reason, 1);
                    // Which bytes they share is another matter each time.
                    let by_chance = [
                        Reason::NotCompleted,
                        Reason::OutsideStall,
                        Reason::BytesUnused,
                        Reason::OverlapUncertain,
                    ];
                    if by_chance.iter().all(|chance| chance.name() != reason) {
                        let seen = self.seen(spot, hit);
                        self.pairs.refuse(seen);
                    }
                }
            }
        }
    }

    /// Whether no other access traps at the program counter of a hit that an instruction at `pc` has made: that of a memory
    /// routine has many callers, and a repeated string instruction traps where it stands.
    pub(super) fn is_told_by_pc(&self, hit: &Hit, pc: u64) -> bool {
        const PREFIXES: usize = 4;
        const REPEATED: [u8; 2] = [0xf2, 0xf3];
        let behind = hit.regs.rip;
        let next = self.modules.code(behind);
        !hit.in_kernel
            && pc < behind
            && !self.modules.is_routine(pc)
            && !next
                .iter()
                .take(PREFIXES)
                .any(|byte| REPEATED.contains(byte))
    }

    /// The race of these two places was told already: its stacks are not wanted.
    pub(super) fn is_known(&self, stalled: Spot, hit: &Hit) -> bool {
        !self.setup.full_repeats && self.pairs.is_told(&self.seen(stalled, hit))
    }

    pub(super) fn seen(&self, stalled: Spot, hit: &Hit) -> Seen {
        let call = racing_call(&self.modules, hit);
        let racing = Spot::new(hit.regs.rip, call.as_ref());
        Seen { stalled, racing }
    }
}

/// Reads a process's memory.
pub(super) fn memory_of(pid: Pid) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool {
    move |address, bytes| matches!(memory::read_exact(pid, address, bytes), Ok(true))
}

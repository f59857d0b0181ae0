//! The stalled thread makes its access, and what was caught is judged.

use std::time::{SystemTime, UNIX_EPOCH};

use gwp_race_abi::phase;
use nix::unistd::Pid;

use crate::addr::RuntimeAddr;
use crate::hunt::classify::{Circumstances, classify};
use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::Rig;
use crate::hunt::wire::Notice;
use crate::kernel::gates::Hit;
use crate::kernel::process::monotonic_ns;
use crate::tracee::memory;
use crate::verdict::{Policy, Reason};

use super::pairs::{Pairs, Seen, Spot};
use super::{Confirm, Purpose, Sampler, State};

impl Confirm {
    /// Tells what of it is a race, and why the rest is none. `completed`: the stalled thread was seen to make its access.
    pub fn judge(&self, completed: bool, pairs: &mut Pairs, rig: &mut Rig) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let circumstances = Circumstances {
            pid: rig.program.pid,
            exe: rig.program.exe.clone(),
            stalled_name: self.name.clone(),
            clock_offset_ns: (now.as_nanos() as u64).wrapping_sub(monotonic_ns()),
            completed,
            open: self.open.clone(),
        };
        let memory = memory_of(as_pid(rig.program.pid));
        let policy = Policy {
            mixed: rig.setup.report_mixed,
            unanalyzed: rig.setup.report_unanalyzed,
        };
        let side = &self.side;
        let spot = Spot::new(side.watched.pc, side.call.as_ref());
        for hit in &self.hits {
            let holds = self.holds_at(hit);
            let modules = &rig.modules;
            match classify(modules, side, hit, holds, &circumstances, &policy, &memory) {
                Ok(finding) => {
                    let seen = Seen::of(spot, hit, &rig.modules);
                    if let Some(reason) = pairs.refuted(&seen) {
                        rig.figures.not_reported(reason.name(), 1);
                        continue;
                    }
                    let is_told_by_pc = rig.is_told_by_pc(hit, finding.racing.pc);
                    if !pairs.tell(seen, is_told_by_pc) && !rig.setup.full_repeats {
                        rig.outbox.send(&Notice::Repeat {
                            stalled: side.watched.pc,
                            racing: seen.racing.behind(),
                        });
                    } else {
                        let addresses = [
                            finding.stalled.address,
                            finding.racing.address,
                            finding.watch_address,
                        ];
                        let maps = rig.modules.map_infos(&addresses);
                        if !rig.outbox.send(&Notice::Race(Box::new(finding), maps)) {
                            pairs.take_back(&seen);
                        }
                    }
                }
                Err(reason) => {
                    rig.figures.not_reported(reason, 1);
                    // Which bytes they share is another matter each time.
                    let by_chance = [
                        Reason::NotCompleted,
                        Reason::OutsideStall,
                        Reason::BytesUnused,
                        Reason::OverlapUncertain,
                    ];
                    if by_chance.iter().all(|chance| chance.name() != reason) {
                        let seen = Seen::of(spot, hit, &rig.modules);
                        pairs.refuse(seen);
                    }
                }
            }
        }
    }
}

impl Sampler {
    /// The owner has made its access, or was not seen to.
    pub fn end_confirm(&mut self, rig: &mut Rig, completed: bool) {
        let State::Confirm(confirm) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let completed = completed || rig.gates.phase().is(phase::CONFIRMED);
        rig.arming.unbreak(confirm.side.tid);
        self.begin_scan(rig, Purpose::Judge { confirm, completed }, false);
    }

    /// The race of these two places was told already: its stacks are not wanted.
    pub fn is_known(&self, rig: &Rig, stalled: Spot, hit: &Hit) -> bool {
        !rig.setup.full_repeats && self.pairs.is_told(&Seen::of(stalled, hit, &rig.modules))
    }
}

/// Reads a process's memory.
pub fn memory_of(pid: Pid) -> impl Fn(RuntimeAddr, &mut [u8]) -> bool {
    move |address, bytes| matches!(memory::read_exact(pid, address, bytes), Ok(true))
}

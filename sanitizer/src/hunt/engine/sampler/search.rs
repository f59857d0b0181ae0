//! Looking for a thread at an access site, where no gate claims one: a clock sample leads straight to a site, by an instruction breakpoint of its thread alone,
//! which sends it a signal that it ignores.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{Counter, phase};

use crate::addr::RuntimeAddr;
use crate::hunt::engine::adviser::Adviser;
use crate::hunt::engine::rig::{BREAKPOINT_FAILED, Rig};
use crate::hunt::strategy::{Patience, Proposal};
use crate::kernel::gates::user_registers;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ring::Trap;
use crate::symbols::StackSnapshot;

use super::{Sampler, State};

/// How long a thread may take to come to its site. It runs freely meanwhile, and may have passed
/// the next access when its sample is read.
const SEARCH_TIME: Duration = Duration::from_millis(5);

impl Sampler {
    /// Asks the strategy where the sampled thread should be stalled, and sends it there. It runs on.
    pub fn search(&mut self, rig: &mut Rig, adviser: &mut Adviser, trap: &Trap) {
        let regs = user_registers(&trap.regs, rig.arming.thread_pointer(trap.tid));
        let snapshot = StackSnapshot {
            base: regs.rsp,
            bytes: trap.stack.clone(),
        };
        let call = rig.routine_call(&regs, &|| &snapshot);
        match adviser.propose(rig, &regs, call.as_ref(), None, &|| &snapshot) {
            Proposal::Pass(reason) => rig.figures.no_stall(reason),
            Proposal::StallHere { site, patience } => {
                self.send_to(rig, trap.tid, regs.rip, site, patience);
            }
            Proposal::Seek { at, site, patience } => {
                self.send_to(rig, trap.tid, at, site, patience)
            }
        }
    }

    /// Claims a thread that runs and lets it stop at an instruction.
    fn send_to(&mut self, rig: &mut Rig, tid: u32, at: u64, site: u64, patience: Patience) {
        let control = rig.gates.control();
        self.generation = rig.gates.phase().read().generation() + 1;
        control.claim.owner.store(u64::from(tid), SeqCst);
        control.claim.breakpoint.store(at, SeqCst);
        self.enter(rig, phase::SEEK);
        let now = monotonic_ns();
        control.claim.time_ns.store(now, SeqCst);
        if let Err(error) = rig.arming.break_at(tid, RuntimeAddr(at), &rig.gates) {
            rig.cannot_arm(&error, BREAKPOINT_FAILED);
            return self.go_idle(rig);
        }
        rig.add(Counter::SamplesPassed, 1);
        self.state = State::seek(tid, site, patience, now, SEARCH_TIME);
        // From here on it may stand still at any time.
        rig.gates
            .control()
            .watchdog
            .standing_since_ns
            .store(now, SeqCst);
        rig.gates.tell_watchdog();
    }
}

//! The gates' work in user space, where eBPF is not permitted: the same decisions and counters.
//!
//! No thread is stopped to be asked. The kernel writes clock samples and accesses of watched bytes
//! into rings at the instant at which they happen; the engine reads them.
//!
//! An access counts only within its stall (invariant I7) by the order of what the engine does: the
//! rings are emptied before the watchpoints are armed, and read for the last time before the stalled
//! thread is let go. The kernel writes a record before the access's thread goes on, and disarming
//! waits for that, so what is found was made in between. No signal is evidence.

use std::sync::atomic::Ordering::SeqCst;

use gwp_race_abi::control::Samples;
use gwp_race_abi::{Control, Counter, HITS, access, phase, sample};

use crate::addr::RuntimeAddr;
use crate::hunt::arming::Source;
use crate::hunt::engine::as_pid;
use crate::hunt::modules::Place;
use crate::kernel::gates::Hit;
use crate::kernel::perf::Delivery;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ring::Trap;
use crate::tracee;
use crate::tracee::memory;
use crate::tracee::status::Status;

use super::Rig;

/// What the rings held, beside what was counted and kept of it.
#[derive(Debug, Default)]
pub struct Records {
    /// A clock sample that may claim its thread.
    pub sample: Option<Trap>,
    /// Code runs that no module is known for.
    pub is_code_unknown: bool,
}

/// What becomes of a clock sample.
enum Sampled {
    MayBeClaimed,
    Refused,
    InUnknownCode,
}

impl Rig {
    /// Counts and keeps what the rings hold, where there are no gates. `may_claim`: a clock sample may claim its thread.
    pub fn take_records(&mut self, may_claim: bool) -> Records {
        let mut records = Records::default();
        if self.has_gates() {
            return records;
        }
        let mut traps = Vec::new();
        let lost = self
            .arming
            .take_records(|source, trap| traps.push((source, trap)));
        let control = self.gates.control();
        let cost = control.budget.trap_cost_ns.load(SeqCst);
        control
            .budget
            .spent_ns
            .fetch_add(cost.saturating_mul(traps.len() as u64 + lost), SeqCst);
        if lost > 0 {
            // A clock seldom fills a ring: these are accesses.
            self.add(Counter::Traps, lost);
            let open = self.gates.phase().is(phase::STALL);
            self.add(
                if open {
                    Counter::HitOverflow
                } else {
                    Counter::HitStale
                },
                lost,
            );
            self.gates.control().stall.traps.fetch_add(lost, SeqCst);
        }
        for (source, trap) in traps {
            match source {
                Source::Watch => self.on_access(trap),
                Source::Clock => {
                    match self.on_sample_of_clock(&trap, may_claim && records.sample.is_none()) {
                        Sampled::MayBeClaimed => records.sample = Some(trap),
                        Sampled::InUnknownCode => records.is_code_unknown = true,
                        Sampled::Refused => {}
                    }
                }
            }
        }
        records
    }

    /// The clock gate: may this thread be sampled, here and now? `may_claim`: no sample is in hand, nor was claimed this moment.
    fn on_sample_of_clock(&self, trap: &Trap, may_claim: bool) -> Sampled {
        self.add(Counter::Samples, 1);
        let control = self.gates.control();
        let stands_for = control.budget.sample_ns.load(SeqCst);
        control.budget.sampled_ns.fetch_add(stands_for, SeqCst);
        let place = self.modules.place(trap.regs.rip);
        let is_analyzed = |place: &Place<'_>| {
            let function = place.function();
            function.is_some_and(|function| function.is_analyzed())
        };
        let called = || {
            let behind = trap.stack.first_chunk::<8>()?;
            self.modules
                .place(u64::from_le_bytes(*behind).wrapping_sub(1))
        };
        if place.as_ref().is_some_and(|place| {
            is_analyzed(place)
                || place.is_mem_routine() && called().is_some_and(|by| is_analyzed(&by))
        }) {
            self.add(Counter::SamplesAnalyzed, 1);
        } else {
            count_elsewhere(control, trap.regs.rip);
        }
        let reason = match place.map(|place| place.is_worth_sampling()) {
            None => {
                self.add(Counter::SampleNoModule, 1);
                let now = monotonic_ns();
                let last = &control.samples.unknown_pc_ns;
                if now.saturating_sub(last.load(SeqCst)) <= sample::UNKNOWN_PC_INTERVAL_NS {
                    return Sampled::Refused;
                }
                last.store(now, SeqCst);
                return Sampled::InUnknownCode;
            }
            Some(false) => Counter::SampleUnanalyzed,
            Some(true) => match self.refusal(may_claim) {
                Some(reason) => reason,
                None if self.is_stoppable(trap.tid) => return Sampled::MayBeClaimed,
                None => Counter::SampleUnstoppable,
            },
        };
        self.add(reason, 1);
        Sampled::Refused
    }

    /// Why no thread may be claimed now. Clock samples are wanted always: nobody else claims threads here.
    fn refusal(&self, may_claim: bool) -> Option<Counter> {
        let control = self.gates.control();
        sample::refusal(
            may_claim,
            true,
            control.budget.spent_ns.load(SeqCst),
            control.budget.earned_ns.load(SeqCst),
        )
    }

    /// Whether a signal of ours stops a thread and can do nothing else (invariant I1), as far as can
    /// be seen beforehand: the program may change its mind until the signal comes.
    fn is_stoppable(&self, tid: u32) -> bool {
        let Delivery::GateSignal(signal) = self.arming.delivery() else {
            return false;
        };
        let signal = i32::from(signal);
        self.arming.holds(tid)
            && Status::of_thread(as_pid(self.program.pid), as_pid(tid)).is_ok_and(|status| {
                !status.caught.contains_number(signal) && !status.blocked.contains_number(signal)
            })
    }

    /// The watch gate: is this access evidence? If so it is kept.
    fn on_access(&mut self, trap: Trap) {
        self.add(Counter::Traps, 1);
        let control = self.gates.control();
        let phase = self.gates.phase().read();
        let watched = control.stall.address.load(SeqCst);
        if !access::is_of_stall(phase.word(), trap.address, watched) {
            return self.add(Counter::HitStale, 1);
        }
        control.stall.traps.fetch_add(1, SeqCst);
        if u64::from(trap.tid) == control.claim.owner.load(SeqCst) {
            return self.add(Counter::HitSameThread, 1);
        }
        // The program counter is that of the next instruction: one byte back is in the function.
        let pc = trap.regs.rip;
        let is_atomic = self
            .modules
            .place(pc)
            .is_some_and(|place| place.ends_atomic());
        if control.evidence.ignore_atomic.load(SeqCst) != 0 && is_atomic {
            return self.add(Counter::HitAtomic, 1);
        }
        let place = self.modules.place(pc.wrapping_sub(1));
        let code = place.map_or_else(access::Code::default, |place| access::Code {
            is_judged: place.is_evidence(),
            is_of_library: place.module.metadata.is_none(),
        });
        let keep = access::Keep {
            results: control.evidence.keep_results.load(SeqCst) != 0,
            unanalyzed: control.evidence.keep_unanalyzed.load(SeqCst) != 0,
        };
        if !code.is_evidence(keep) {
            return self.add(Counter::HitUnanalyzed, 1);
        }
        if control.stall.hits.fetch_add(1, SeqCst) >= HITS as u64 {
            return self.add(Counter::HitOverflow, 1);
        }
        let pid = as_pid(self.program.pid);
        let mut value = [0; 8];
        // What it is now: the access itself was some microseconds ago.
        let _ = memory::read(pid, RuntimeAddr(watched), &mut value);
        let name = tracee::threads::name(pid, as_pid(trap.tid)).unwrap_or_default();
        let mut comm = [0; 16];
        for (to, from) in comm.iter_mut().zip(name.bytes().take(15)) {
            *to = from;
        }
        let fs_base = self.arming.thread_pointer(trap.tid);
        self.gates.keep(Hit {
            generation: phase.generation(),
            time_ns: trap.time_ns,
            tid: trap.tid,
            comm,
            stopping: false,
            in_kernel: false,
            early: false,
            value: u64::from_le_bytes(value),
            regs: trap.regs,
            fs_base,
            stack: trap.stack,
        });
        self.add(Counter::HitRecorded, 1);
    }
}

/// Counts a sample outside analyzed functions, as the clock gate does.
fn count_elsewhere(control: &Control, pc: u64) {
    let Some([place, number]) = control.samples.elsewhere.get(Samples::place_elsewhere(pc)) else {
        return;
    };
    let before = [place.load(SeqCst), number.load(SeqCst)];
    let [now_there, counted] = Samples::counted_elsewhere(before, pc);
    place.store(now_there, SeqCst);
    number.store(counted, SeqCst);
}

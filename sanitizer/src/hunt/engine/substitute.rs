//! The gates' work in user space, where eBPF is not permitted: the same decisions, counters and
//! phases.
//!
//! No thread is stopped to be asked. The kernel writes clock samples and accesses of watched bytes
//! into rings at the instant at which they happen; the engine reads them. A sample leads straight to
//! a site: an instruction breakpoint of that thread alone, which sends it a signal that it ignores.
//!
//! An access counts only within its stall (invariant I7) by the order of what the engine does: the
//! rings are emptied before the watchpoints are armed, and read for the last time before the stalled
//! thread is let go. The kernel writes a record before the access's thread goes on, and disarming
//! waits for that, so what is found was made in between. No signal is evidence.

mod search;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Control;
use gwp_race_abi::Counter;
use gwp_race_abi::HITS;
use gwp_race_abi::TRAPS_PER_STALL;
use gwp_race_abi::access;
use gwp_race_abi::control::Samples;
use gwp_race_abi::phase;
use gwp_race_abi::sample;

use super::{Engine, EngineError, State, as_pid, release};
use crate::addr::RuntimeAddr;
use crate::hunt::arming::Source;
use crate::hunt::modules::Place;
use crate::kernel::gates::Hit;
use crate::kernel::perf::Delivery;
use crate::kernel::process::monotonic_ns;
use crate::kernel::ptrace;
use crate::kernel::ring::Trap;
use crate::tracee;
use crate::tracee::memory;
use crate::tracee::status::Status;

/// How long a thread may take to come to its site. It runs freely meanwhile, and may have passed
/// the next access when its sample is read.
const SEARCH_TIME: Duration = Duration::from_millis(5);

/// The first and the longest pause between two looks for new threads.
const SCANS: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Once the budget is spent, the clocks run again when it has grown by this much: about the cost of a
/// stall. To look more often would cost more than what there is to spend.
const RESERVE: Duration = Duration::from_millis(1);

/// How long the engine sleeps at least until then.
const LEAST_REST: Duration = Duration::from_millis(20);

/// What the engine keeps for it.
pub(super) struct Substitute {
    /// The share of the target's CPU time that is earned.
    share: f64,
    /// The target's CPU time for which it was; `None` before watching began.
    paid: Option<Duration>,
    /// When to look at the budget again; 0 while it is not spent.
    next_budget: u64,
    next_scan: u64,
    scan_every: Duration,
}

impl Substitute {
    pub(super) fn new(share: f64) -> Self {
        Self {
            share,
            paid: None,
            next_budget: 0,
            next_scan: 0,
            scan_every: SCANS[0],
        }
    }

    /// When the engine has to be awake for it.
    pub(super) fn due(&self) -> u64 {
        match self.next_budget {
            0 => self.next_scan,
            budget => budget.min(self.next_scan),
        }
    }
}

impl Engine {
    /// Takes in what the rings hold, and does what follows from it.
    pub(super) fn read_rings(&mut self) {
        if self.substitute.is_none() {
            return;
        }
        let sample = self.take_records();
        if matches!(self.state, State::Stalled(_)) {
            let control = self.gates.control();
            if control.stall.hits.load(SeqCst) > 0 {
                self.end_stall(None);
            } else if control.stall.traps.load(SeqCst) >= TRAPS_PER_STALL {
                self.cut_stall_short();
            }
        }
        if let Some(sample) = sample
            && matches!(self.state, State::Idle)
        {
            self.search(&sample);
        }
    }

    /// Counts and keeps what the rings hold; a clock sample that may claim its thread.
    pub(super) fn take_records(&mut self) -> Option<Trap> {
        self.substitute.as_ref()?;
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
        let mut chosen = None;
        for (source, trap) in traps {
            match source {
                Source::Watch => self.on_access(trap),
                Source::Clock => {
                    if self.may_claim(&trap, chosen.is_some()) {
                        chosen = Some(trap);
                    }
                }
            }
        }
        chosen
    }

    pub(super) fn add(&self, counter: Counter, number: u64) {
        self.gates.control().counters[counter as usize].fetch_add(number, SeqCst);
    }

    /// The clock gate: may this thread be sampled, here and now?
    fn may_claim(&mut self, trap: &Trap, is_claimed: bool) -> bool {
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
                let now = monotonic_ns();
                let last = &self.gates.control().samples.unknown_pc_ns;
                if now.saturating_sub(last.load(SeqCst)) > sample::UNKNOWN_PC_INTERVAL_NS {
                    last.store(now, SeqCst);
                    self.scan_for_code();
                }
                Counter::SampleNoModule
            }
            Some(false) => Counter::SampleUnanalyzed,
            Some(true) => match self.refusal(is_claimed) {
                Some(reason) => reason,
                None if self.is_stoppable(trap.tid) => return true,
                None => Counter::SampleUnstoppable,
            },
        };
        self.add(reason, 1);
        false
    }

    /// Why no thread may be claimed now. Clock samples are wanted always: nobody else claims threads here.
    fn refusal(&self, is_claimed: bool) -> Option<Counter> {
        let control = self.gates.control();
        sample::refusal(
            !is_claimed && self.is_at_rest(),
            true,
            control.budget.spent_ns.load(SeqCst),
            control.budget.earned_ns.load(SeqCst),
        )
    }

    /// Whether no sample is in hand, nor was claimed this moment.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Idle) && self.gates.phase().is(phase::IDLE)
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

    /// Whether a signal comes from a breakpoint of ours.
    pub(super) fn is_of_breakpoint(&self, tid: u32, signal: i32) -> bool {
        self.substitute.is_some()
            && [libc::SIGURG, libc::SIGWINCH].contains(&signal)
            && ptrace::signal_info(tid).is_ok_and(|info| {
                info.code == ptrace::POLL_IN && self.arming.is_signalling(info.descriptor)
            })
    }

    /// The reach gate: has the owner of the sample come to its access site, or passed it? What counts
    /// is where the thread stands, not when the signal was sent.
    pub(super) fn on_breakpoint(&mut self, tid: u32) -> Result<(), EngineError> {
        let now = monotonic_ns();
        if !self.take_signal(tid)? {
            // Gone, or executing another program: the rest is told of next.
            return Ok(());
        }
        let control = self.gates.control();
        let cost = control.budget.trap_cost_ns.load(SeqCst);
        control.budget.spent_ns.fetch_add(cost, SeqCst);
        let regs = ptrace::registers(tid).unwrap_or_default();
        let has_come = control.claim.owner.load(SeqCst) == u64::from(tid)
            && control.claim.breakpoint.load(SeqCst) == regs.rip;
        let next = self.gates.phase().read().after_arrival();
        match (next.filter(|_| has_come), &self.state) {
            (Some(phase::REACHED), State::Seek { .. }) => {
                control.claim.time_ns.store(now, SeqCst);
                control.watchdog.standing_since_ns.store(now, SeqCst);
                self.enter(phase::REACHED);
                self.arming.note_thread_pointer(tid, regs.fs_base);
                self.on_sample(tid);
            }
            (Some(phase::CONFIRMED), State::Confirm(_)) => {
                self.enter(phase::CONFIRMED);
                release(tid, 0);
                self.end_confirm(true);
            }
            _ => {
                self.add(Counter::ReachSwallowed, 1);
                release(tid, 0);
            }
        }
        Ok(())
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

//! What every part of the engine works with: the program, the events on its threads, the gates, and what is charged, counted and told.

mod activity;
mod clocks;
mod code;
mod evidence;
mod figures;
mod preempted;
mod program;
mod records;
mod release;
mod signals;
mod site;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::{Counter, HITS};

use crate::hunt::arming::Arming;
use crate::hunt::budget::Budget;
use crate::hunt::engine::EngineError;
use crate::hunt::loader::Loader;
use crate::hunt::modules::ModuleSet;
use crate::hunt::routine_call::RoutineCall;
use crate::hunt::strategy::Means;
use crate::hunt::wire::{Notice, Outbox, Setup};
use crate::insn::Regs;
use crate::kernel::KernelError;
use crate::kernel::gates::Gates;
use crate::kernel::process::{monotonic_ns, nanos};

pub use figures::Figures;
pub use program::Program;
pub use release::release;

/// A claim whose stop has not come by then is void.
pub const CLAIM_TIME: Duration = Duration::from_millis(100);

/// To add up the CPU times of so many threads takes some microseconds, while one stands still.
const MOST_THREADS: usize = 256;

/// What a thread that comes to a site may cost before it was earned.
pub const CREDIT: Duration = Duration::from_millis(5);

/// Why there is no stall where something could not be armed.
pub const BREAKPOINT_FAILED: &str = "breakpoint-failed";
pub const WATCHPOINT_FAILED: &str = "watchpoint-failed";

/// A thread that stands.
pub struct Standing {
    pub tid: u32,
    pub regs: Regs,
    /// The call of the memory routine in which it stands.
    pub call: Option<RoutineCall>,
}

/// See the module.
pub struct Rig {
    pub setup: Setup,
    pub program: Program,
    pub arming: Arming,
    pub modules: Arc<ModuleSet>,
    pub loader: Loader,
    pub gates: Gates,
    pub budget: Budget,
    pub figures: Figures,
    pub outbox: Outbox,
}

impl Rig {
    /// Whether gates decide in the kernel; else their work is done here.
    pub fn has_gates(&self) -> bool {
        self.gates.are_in_kernel()
    }

    /// CPU time between clock samples of a thread, ns.
    pub fn period_ns(&self) -> u64 {
        let trap_cost_ns = self.gates.control().budget.trap_cost_ns.load(SeqCst);
        period_ns(&self.setup, trap_cost_ns)
    }

    pub fn counter(&self, counter: Counter) -> u64 {
        self.gates.control().counters[counter as usize].load(SeqCst)
    }

    pub fn add(&self, counter: Counter, number: u64) {
        self.gates.control().counters[counter as usize].fetch_add(number, SeqCst);
    }

    /// Accesses recorded in the stall in hand.
    pub fn caught(&self) -> usize {
        let recorded = self.gates.control().stall.hits.load(SeqCst);
        usize::try_from(recorded).map_or(HITS, |recorded| recorded.min(HITS))
    }

    /// CPU time that the program has used until a stall begins, or ends, ns.
    pub fn used_by_now(&self) -> Option<u64> {
        (self.arming.len() <= MOST_THREADS).then(|| self.program.cpu_used())
    }

    /// A thread stood still from a time until now: learns what that cost the program.
    pub fn stood_since(&mut self, opened: u64, used: Option<u64>) {
        if let (Some(before), Some(now)) = (used, self.used_by_now()) {
            let passed =
                |from, to: u64| Duration::from_nanos(to.saturating_sub(from)).as_secs_f64();
            let (stood, used) = (passed(opened, monotonic_ns()), passed(before, now));
            self.budget.learn_loss(stood, used);
        } else {
            self.budget.forget_losses();
        }
    }

    /// What may be spent now.
    pub fn means(&self) -> Means {
        let control = self.gates.control();
        Means {
            purse: self.budget.purse(control, CREDIT),
            spent_s: Duration::from_nanos(control.budget.spent_ns.load(SeqCst)).as_secs_f64(),
        }
    }

    /// Charges a burst of probes; what it has cost in all, ns.
    pub fn charge_burst(&self, hits_ns: u64, worked_ns: u64) -> u64 {
        let control = self.gates.control();
        self.budget.charge_burst(control, hits_ns, worked_ns)
    }

    pub fn clock_may_claim(&self, may: bool) {
        let claims = &self.gates.control().claim.by_clock;
        claims.store(u64::from(may), SeqCst);
    }

    /// Probes that stand may claim whoever comes to one, until then: CLOCK_MONOTONIC, ns.
    pub fn arrivals_may_claim(&self, until: u64) {
        let arrivals = &self.gates.control().arrivals;
        arrivals.credit_ns.store(nanos(CREDIT), SeqCst);
        arrivals.until_ns.store(until, SeqCst);
    }

    /// No gate claims a thread for a sample from here on.
    pub fn nobody_may_claim(&self) {
        self.clock_may_claim(false);
        self.gates.control().arrivals.until_ns.store(0, SeqCst);
    }

    /// Whether one access made at each place is enough.
    pub const fn takes_places_once(&self) -> bool {
        self.setup.learns && !self.setup.full_repeats
    }

    pub fn open_events(&mut self, tid: u32) -> Result<(), EngineError> {
        match self.arming.open(tid, &self.gates) {
            Ok(()) => Ok(()),
            Err(error) if self.arming.len() <= 1 => Err(error.into()),
            Err(error) => {
                self.arming.mark_unwatchable(tid);
                if error.is_out_of_breakpoints() {
                    self.outbox.send(&Notice::BreakpointsTaken);
                }
                self.outbox.send(&Notice::Debug(error.to_string()));
                Ok(())
            }
        }
    }

    /// Traps that were seen. What the kernel does unseen may have changed the bytes all the same.
    pub fn traps_seen(&self) -> u64 {
        self.counter(Counter::Traps) - self.counter(Counter::HitKernel)
    }

    /// Something could not be armed, which is told; there is no stall for this reason.
    pub fn cannot_arm(&mut self, error: &KernelError, reason: &'static str) {
        self.outbox.send(&Notice::Debug(error.to_string()));
        self.figures.no_stall(reason);
    }
}

/// CPU time between clock samples of a thread, ns, where a trap costs so much, ns.
pub fn period_ns(setup: &Setup, trap_cost_ns: u64) -> u64 {
    let chosen = setup.sample_period_ns;
    chosen.unwrap_or_else(|| Budget::usual_period_ns(setup.max_overhead, trap_cost_ns))
}

//! The clocks: how often they tick, and where they have found the program outside analyzed functions.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use gwp_race_abi::Counter;

use crate::hunt::budget::Budget;
use crate::hunt::clocks;
use crate::hunt::engine::as_pid;
use crate::hunt::modules::{ModuleSet, Place};
use crate::hunt::wire::Notice;
use crate::kernel::cpus;
use crate::kernel::process::{monotonic_ns, nanos};

use super::Rig;

impl Rig {
    /// Lets the processors' clocks tick as often as what the program does can pay for, and wants them where those of
    /// threads are dear.
    pub fn look_after_clocks(&mut self) {
        /// A look at less says nothing.
        const LEAST: Duration = Duration::from_millis(500);
        /// Looks in a row: what a program does at its start is not what it does.
        const LOOKS: u32 = 3;
        let passed_ns = monotonic_ns().saturating_sub(self.program.activity.time_ns);
        if passed_ns < nanos(LEAST) {
            return;
        }
        let passed_ns = passed_ns as f64;
        let share = self.setup.max_overhead;
        let ticking = self.arming.ticking_cpus();
        let before = std::mem::take(&mut self.program.activity);
        self.program.begin_activity(self.arming.tids().collect());
        let done = self.program.activity.since(&before);
        let used = self.program.activity.used_ns.saturating_sub(before.used_ns) as f64 / passed_ns;
        if self.has_gates() {
            let waiting = done.map_or(0.0, |done| done.waited * 1e9 / passed_ns);
            let of = cpus::usable_by(as_pid(self.program.pid));
            self.budget.program_uses(used, of, waiting);
            let turns = done.map_or(0.0, |done| done.turns * 1e9 / passed_ns);
            self.look_at_switches(waiting, waiting / turns.max(1.0));
        }
        if self.arming.may_be_dear()
            && let Some(done) = done
            && clocks::are_dear(done.turns * 1e9 / passed_ns, used, share)
        {
            self.program.activity.dear = before.dear + 1;
            if self.program.activity.dear >= LOOKS {
                self.arming.want_cpus();
            }
        }
        let period_ns = if ticking == 0 || self.setup.sample_period_ns.is_some() {
            self.period_ns()
        } else {
            let trap_cost_ns = self.gates.control().budget.trap_cost_ns.load(SeqCst);
            Budget::period_of_cpus_ns(self.period_ns(), ticking, used, share, trap_cost_ns)
        };
        self.arming
            .set_period_of_cpus(Duration::from_nanos(period_ns));
    }

    /// Tells where the program was seen to execute outside analyzed functions, at those addresses that are `wanted` now.
    ///
    /// The gate counts by the modules that it knows: what was executed before they were read counts as analyzed
    /// here, where it turned out to be.
    pub fn tell_elsewhere(&mut self, wanted: impl Fn(&ModuleSet, u64) -> bool) {
        let (mut late, mut counted) = (0, Vec::new());
        for [place, number] in &self.gates.control().samples.elsewhere {
            if !wanted(&self.modules, place.load(SeqCst)) {
                continue;
            }
            let (pc, number) = (place.swap(0, SeqCst), number.swap(0, SeqCst));
            let place = self.modules.place(pc);
            let function = place.as_ref().and_then(Place::function);
            if function.is_some_and(|function| function.is_analyzed()) {
                late += number;
            } else if number > 0 {
                counted.push((pc, number));
            }
        }
        self.add(Counter::SamplesAnalyzed, late);
        if !counted.is_empty() {
            self.outbox.send(&Notice::Elsewhere(counted));
        }
    }
}

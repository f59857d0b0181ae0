//! The budget: what samples cost is paid from a share of the target's CPU time.
//!
//! The gate earns with each clock sample, the tracer with the time in the kernel, which is not sampled; without gates the tracer earns with all of it ([`Budget::earn`], and nowhere else). While the balance is
//! negative nothing is claimed. The gate also charges the traps; the tracer charges stops, arming, its own CPU time and what the daemon needs to explain a race.
//!
//! At first all of it is charged as if it were taken from the target, each thread of which had a processor for itself. Where that is not so, less is lost than that: see [`super::loss`], and [`Budget::program_uses`].

mod advance;

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use gwp_race_abi::Control;

use super::loss::Loss;
use super::plan::purse::Purse;
use crate::kernel::process::{WorkClock, nanos};

pub use advance::{Advance, Allowance};

/// What is charged for a nanosecond that the tracer worked where the target uses all processors: more than one, for
/// what cannot be timed from inside (interrupts, cold caches, the watchdog's turn, exits to a hypervisor).
pub const SEEN_AND_UNSEEN: f64 = 2.4;

/// What is charged for a stop beside the time that the thread stood, for the same reasons.
const UNSEEN_OF_STOP: Duration = Duration::from_micros(150);

/// Savings are capped at this much, so that a quiet hour does not pay for a slow minute.
const SAVINGS: Duration = Duration::from_millis(20);

/// The share of the budget that may go into samples, whatever comes of them.
const SAMPLES_SHARE: f64 = 0.1;
/// The share that looking after the program may take, which finds nothing itself.
const UPKEEP_SHARE: f64 = 0.1;
/// Limits of the time between two samples.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);
const LONGEST_PERIOD: Duration = Duration::from_millis(100);

/// Charges the control block.
#[derive(Debug)]
pub struct Budget {
    /// What those work who watch this target.
    clock: WorkClock,
    charged_cpu_ns: u64,
    /// What the tracer does now is start-up, which is no cost of sampling.
    is_start_up: bool,
    /// The watchdog's CPU time, as far as it is charged, ns.
    guard_cpu_ns: u64,
    share: f64,
    /// Processors that there are for the target and for the tracer.
    cpus: f64,
    /// The part of them that the target uses, and how many that are; `None` where that is unknown.
    used: Option<(f64, f64)>,
    /// Where other processes are watched as well: the part of the processors that is used by whatever.
    company: Option<f64>,
    loss: Loss,
    /// How much may be saved now, ns: what is left of the advance, at first.
    most_savings: u64,
    /// What has to be earned once more before anything is, ns; and when it is over at the latest, where that is known.
    ahead_ns: u64,
    ends: Option<Instant>,
    /// Gates earn with each clock sample; else the tracer earns with all CPU time.
    samples_earn: bool,
    /// CPU time of the target that no sample has earned with, and that was earned with by the tracer, ns.
    unsampled_ns: u64,
    /// Time that threads of the target stood still, ns.
    pub stopped_ns: u64,
    /// What was charged for stops, for those who waited for a stopped thread, for the tracer's work, and for the daemon's, ns.
    stops_ns: u64,
    others_ns: u64,
    worked_ns: u64,
    explained_ns: u64,
}

impl Budget {
    /// CPU time of a thread between two samples, ns, where nobody has said: samples alone must not take much of the budget, and they cost more in a virtual machine.
    #[must_use]
    pub fn usual_period_ns(share: f64, trap_cost_ns: u64) -> u64 {
        let affordable = trap_cost_ns as f64 / (share * SAMPLES_SHARE);
        (affordable as u64).clamp(nanos(SHORTEST_PERIOD), nanos(LONGEST_PERIOD))
    }

    /// The time between two samples of each of so many processors, ns, where those of a thread would be so far
    /// apart, for a program that uses so many processors on average: the others' ticks are for nothing, and all of
    /// them must not take much of the budget either. A program that does nothing has its processors hardly disturbed.
    #[must_use]
    pub fn period_of_cpus_ns(
        period_ns: u64,
        cpus: usize,
        used: f64,
        share: f64,
        trap_cost_ns: u64,
    ) -> u64 {
        /// How many times as long it may be.
        const MOST: u32 = 128;
        let ticks = cpus as f64 * 1e9 / period_ns as f64;
        let affordable = used * share * SAMPLES_SHARE * 1e9 / trap_cost_ns.max(1) as f64;
        // By powers of two: to change it interrupts every processor.
        let times = (ticks / affordable).ceil().clamp(1.0, f64::from(MOST)) as u32;
        period_ns * u64::from(times.next_power_of_two())
    }

    /// Says how much CPU time of the program each sample stands for, ns; 0 where the tracer looks at that time by itself, because samples are few.
    pub fn set_period(&self, control: &Control, period_ns: u64) {
        let earned = match self.ahead_ns {
            0 if self.samples_earn => scaled(period_ns, self.share),
            _ => 0,
        };
        control.budget.sample_ns.store(period_ns, SeqCst);
        control.budget.earn_per_sample_ns.store(earned, SeqCst);
    }

    /// Sets the rates in the control block.
    #[must_use]
    pub fn new(
        control: &Control,
        period_ns: u64,
        share: f64,
        trap_cost_ns: u64,
        to: Advance,
        clock: WorkClock,
    ) -> Self {
        let advance = to.ns(share);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (used, ends) = to.known(cpus);
        control.budget.trap_cost_ns.store(trap_cost_ns, SeqCst);
        control.budget.earned_ns.fetch_add(advance, SeqCst);
        // What it took to get here (loading, reading metadata) is not a cost of sampling.
        let budget = Self {
            charged_cpu_ns: clock.ns(),
            is_start_up: false,
            guard_cpu_ns: clock.guard_ns(),
            clock,
            share,
            cpus,
            used,
            ends,
            company: (!matches!(to, Advance::First)).then_some(1.0),
            loss: Loss::default(),
            most_savings: advance,
            ahead_ns: match to {
                Advance::Saved(_) => advance,
                Advance::First | Advance::Child => 0,
            },
            samples_earn: true,
            unsampled_ns: 0,
            stopped_ns: 0,
            stops_ns: 0,
            others_ns: 0,
            worked_ns: 0,
            explained_ns: 0,
        };
        budget.set_period(control, period_ns);
        budget
    }

    /// No gate earns: samples are counted by the tracer, which earns with all CPU time by itself.
    #[must_use]
    pub fn without_gates(mut self, control: &Control) -> Self {
        self.samples_earn = false;
        self.set_period(control, control.budget.sample_ns.load(SeqCst));
        self
    }

    /// What those work who watch the target.
    #[must_use]
    pub const fn clock(&self) -> &WorkClock {
        &self.clock
    }

    /// The same, for whoever comes next.
    #[must_use]
    pub fn into_clock(self) -> WorkClock {
        self.clock
    }

    /// What the tracer does from now on is start-up, and not charged.
    pub fn begin_start_up(&mut self, control: &Control) {
        self.settle(control);
        self.is_start_up = true;
    }

    /// Start-up has ended, if it was under way; what was done until now and not yet charged was a part of it.
    pub fn end_start_up(&mut self) {
        if std::mem::take(&mut self.is_start_up) {
            self.charged_cpu_ns = self.clock.ns();
            self.guard_cpu_ns = self.clock.guard_ns();
        }
    }

    /// How long the program is not to be looked after again where it took so much work, ns.
    #[must_use]
    pub fn rest_after(&self, worked: u64) -> Duration {
        let charged = Duration::from_nanos(scaled(worked, self.work_share())).as_secs_f64();
        let rest = charged / (self.income() * UPKEEP_SHARE);
        Duration::try_from_secs_f64(rest).unwrap_or(Duration::MAX)
    }

    /// What comes in, seconds of a second.
    fn income(&self) -> f64 {
        /// Of a processor: what a program that does nothing is thought to use, and one of which nothing is known.
        const LEAST: f64 = 0.01;
        const USUAL: f64 = 1.0;
        self.share * self.used.map_or(USUAL, |(_, cpus)| cpus.max(LEAST))
    }

    /// Charges the CPU time that the watchdog, this process's parent, has used since the last time.
    pub fn charge_guard(&mut self, control: &Control) {
        if self.is_start_up {
            return;
        }
        let used = self.clock.guard_ns();
        let worked = used.saturating_sub(self.guard_cpu_ns);
        self.guard_cpu_ns = used.max(self.guard_cpu_ns);
        self.worked_ns += worked;
        control.budget.spent_ns.fetch_add(worked, SeqCst);
    }

    /// Earns with the CPU time that no gate has earned with, of `used`, ns since the program is watched: what no clock sample stands for, since those come in user mode only; without gates all of it.
    pub fn earn(&mut self, control: &Control, used: u64) {
        let sampled = control.budget.sampled_ns.load(SeqCst) * u64::from(self.samples_earn);
        let unsampled = used.saturating_sub(sampled);
        if self.ahead_ns > 0 {
            let Some(earned) = scaled(used, self.share).checked_sub(self.ahead_ns) else {
                return;
            };
            self.ahead_ns = 0;
            self.unsampled_ns = unsampled;
            self.set_period(control, control.budget.sample_ns.load(SeqCst));
            control.budget.earned_ns.fetch_add(earned, SeqCst);
            return;
        }
        let new = unsampled.saturating_sub(self.unsampled_ns);
        self.unsampled_ns += new;
        let earned = (new as f64 * self.share) as u64;
        control.budget.earned_ns.fetch_add(earned, SeqCst);
    }

    /// What is left, and what comes in; a thread that is worth it may cost so much more.
    #[must_use]
    pub fn purse(&self, control: &Control, credit: Duration) -> Purse {
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        let [earned, spent] = [&control.budget.earned_ns, &control.budget.spent_ns]
            .map(|ns| seconds(ns.load(SeqCst)));
        let purse = Purse {
            left_s: earned - spent,
            income: self.income(),
            most_s: SAVINGS.as_secs_f64(),
            credit_s: credit.as_secs_f64(),
        };
        match self.ends {
            Some(ends) if self.ahead_ns > 0 => {
                let time = ends.saturating_duration_since(Instant::now());
                purse.saved(seconds(self.ahead_ns), time.as_secs_f64())
            }
            _ => purse,
        }
    }

    /// Takes note of how many processors the target uses, on average, of those that it may, and how many of its threads wait
    /// for one. What the tracer works takes from it only where it would have run there; but that costs others its time in any case.
    pub fn program_uses(&mut self, cpus: f64, of: usize, waiting: f64) {
        self.used = Some((cpus / self.cpus.min(of.max(1) as f64), cpus));
        self.loss.waits(waiting);
    }

    /// Forgets a part of what was seen of the target's losses.
    pub fn decay(&mut self) {
        self.loss.decay();
    }

    /// Forgets what was seen of the target's losses: they are not known any more.
    pub fn forget_losses(&mut self) {
        self.loss = Loss::default();
    }

    /// Forgets all that was seen of the target: it executes another program.
    pub fn forget(&mut self) {
        self.used = None;
        self.forget_losses();
    }

    /// Takes note of whether other processes are watched as well: they lose by the work, too, as far as processors are used, by whatever.
    pub fn has_company(&mut self, used: Option<f64>) {
        self.company = used;
    }

    /// A thread stood still for `stood`, seconds, and the target has used `used` seconds of CPU time meanwhile.
    pub fn learn_loss(&mut self, stood: f64, used: f64) {
        if let Some((_, average)) = self.used {
            self.loss.saw(stood, stood * average, used);
        }
    }

    /// What is lost, of the time that a thread stands still.
    #[must_use]
    pub fn loss_share(&self) -> f64 {
        self.loss.share()
    }

    /// What is charged for a nanosecond that the tracer has worked.
    fn work_share(&self) -> f64 {
        let own = self.used.map(|(used, _)| used);
        let used = match (own, self.company) {
            (Some(own), Some(company)) => own.max(company),
            (own, company) => own.or(company).unwrap_or(1.0),
        };
        (SEEN_AND_UNSEEN * used).clamp(1.0, SEEN_AND_UNSEEN)
    }

    /// Charges a thread's standing still.
    pub fn charge_stop(&mut self, control: &Control, ns: u64) {
        self.stopped_ns += ns;
        let charged = scaled(ns, self.loss_share()) + nanos(UNSEEN_OF_STOP);
        self.stops_ns += charged;
        control.budget.spent_ns.fetch_add(charged, SeqCst);
    }

    /// Charges a thread's standing still on the program's own account. What cannot be seen of it is a part of what the tracer's work for
    /// it is charged for.
    pub fn charge_own_stop(&mut self, control: &Control, ns: u64) {
        self.stopped_ns += ns;
        let charged = scaled(ns, self.loss_share());
        self.stops_ns += charged;
        control.budget.spent_ns.fetch_add(charged, SeqCst);
    }

    /// Charges the time that other threads waited for one that stood still, ns.
    pub fn charge_others(&mut self, control: &Control, ns: u64) {
        let ns = scaled(ns, self.loss_share());
        self.others_ns += ns;
        control.budget.spent_ns.fetch_add(ns, SeqCst);
    }

    /// Charges what a burst of probes has cost: threads came to them, which took so long, ns. The work for it is handed over to the clock, and so is charged with the tracer's.
    /// The result is what it has cost in all, ns.
    pub fn charge_burst(&self, control: &Control, hits_ns: u64, worked_ns: u64) -> u64 {
        control.budget.spent_ns.fetch_add(hits_ns, SeqCst);
        hits_ns + scaled(worked_ns, self.work_share())
    }

    /// Charges CPU time that the daemon has used, mostly to explain what was found, ns.
    pub fn charge_explaining(&mut self, control: &Control, ns: u64) {
        self.explained_ns += ns;
        control.budget.spent_ns.fetch_add(ns, SeqCst);
    }

    /// Charges the CPU time that the tracer has used since the last time, and cuts savings. The result is that time, ns.
    pub fn settle(&mut self, control: &Control) -> u64 {
        let used = self.clock.ns();
        let since = match self.is_start_up {
            true => 0,
            false => used.saturating_sub(self.charged_cpu_ns),
        };
        let worked = scaled(since, self.work_share());
        self.charged_cpu_ns = used;
        self.worked_ns += worked;
        control.budget.spent_ns.fetch_add(worked, SeqCst);
        let spent = control.budget.spent_ns.load(SeqCst);
        let earned = control.budget.earned_ns.load(SeqCst);
        let saved = earned.saturating_sub(spent);
        self.most_savings = self.most_savings.min(saved).max(nanos(SAVINGS));
        let excess = saved.saturating_sub(self.most_savings);
        control.budget.earned_ns.fetch_sub(excess, SeqCst);
        since
    }

    /// Seconds that were spent, by what for.
    #[must_use]
    pub fn spent_s(&self, control: &Control) -> BTreeMap<String, f64> {
        let charged = [
            ("stops", self.stops_ns),
            ("locks", self.others_ns),
            ("tracer", self.worked_ns),
            ("reports", self.explained_ns),
        ];
        let by_gates = control
            .budget
            .spent_ns
            .load(SeqCst)
            .saturating_sub(charged.iter().map(|(_, ns)| ns).sum());
        let all = charged.into_iter().chain([("traps", by_gates)]);
        all.map(|(what, ns)| (what.to_owned(), ns as f64 * 1e-9))
            .collect()
    }
}

fn scaled(ns: u64, share: f64) -> u64 {
    (ns as f64 * share) as u64
}

#[cfg(test)]
mod tests;

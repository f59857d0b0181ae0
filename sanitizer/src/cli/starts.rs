//! Whether a tracer may be made now, or one that is ready take in a process below the first one: the former takes a tenth of a second of
//! CPU time as a rule, the latter some milliseconds, and both are bounded by what the budget pays for.

use std::time::{Duration, Instant};

use super::allowance::Allowance;

/// What may be spent before it is earned: the programs that a session begins with are watched.
const ADVANCE: Duration = Duration::from_secs(1);
/// The measured costs are averages over about so many.
const AVERAGED: u32 = 8;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A tracer is made, and loads its gates.
    Make,
    /// One that is ready takes in a process.
    TakeIn,
}

impl Step {
    /// What it costs, until that was measured.
    const fn usual(self) -> Duration {
        match self {
            Self::Make => Duration::from_millis(100),
            Self::TakeIn => Duration::from_millis(10),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Starts {
    allowance: Allowance,
    /// What they cost, by [`Step`].
    usual: [Duration; 2],
    spent: Duration,
}

impl Starts {
    /// `max_overhead`: the budget, as a share of one processor; of so many of these starts may use all of it.
    #[must_use]
    pub fn new(max_overhead: f64, cpus: usize, now: Instant) -> Self {
        Self {
            allowance: Allowance::new(max_overhead * cpus as f64, ADVANCE, now),
            usual: [Step::Make.usual(), Step::TakeIn.usual()],
            spent: Duration::ZERO,
        }
    }

    /// Whether the budget has something left for another one.
    pub fn may_begin(&mut self, now: Instant) -> bool {
        self.allowance.has(now)
    }

    /// One has begun; what it costs is spent.
    pub fn begin(&mut self, step: Step) {
        let usual = self.usual[step as usize];
        self.spent += usual;
        self.allowance.spend(usual);
    }

    /// One is done, and has used so much CPU time; or it came to nothing, so that what it used is not known.
    pub fn end(&mut self, step: Step, cpu: Option<Duration>) {
        let usual = &mut self.usual[step as usize];
        if let Some(cpu) = cpu {
            self.spent = self.spent.saturating_sub(*usual) + cpu;
            self.allowance.give_back(*usual);
            self.allowance.spend(cpu);
            *usual = (*usual * (AVERAGED - 1) + cpu) / AVERAGED;
        }
    }

    /// Takes note of CPU time beside that.
    pub fn spend(&mut self, cpu: Duration) {
        self.spent += cpu;
        self.allowance.spend(cpu);
    }

    /// CPU time that all starts have used, as far as is known.
    #[must_use]
    pub const fn spent(&self) -> Duration {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the first ones begin at once, and that later ones cost no more than the budget, whether they come to something or not,
    /// and whatever one costs.
    #[test]
    fn starts_are_within_the_budget() {
        const BUDGET: f64 = 0.02;
        const HOUR: u32 = 3600;
        let costs = [
            (Step::Make, 40, true),
            (Step::Make, 100, false),
            (Step::Make, 700, true),
            (Step::TakeIn, 3, true),
            (Step::TakeIn, 10, false),
        ];
        for (step, cost, comes) in costs {
            let cost = Duration::from_millis(cost);
            let begun = Instant::now();
            let mut starts = Starts::new(BUDGET / 2.0, 2, begun);
            let mut count = 0;
            for second in 0..HOUR {
                let now = begun + Duration::from_secs(second.into());
                let mut asked = 0;
                while starts.may_begin(now) && asked < 100 {
                    starts.begin(step);
                    starts.end(step, comes.then_some(cost));
                    asked += 1;
                }
                if second == 0 {
                    assert!(asked > 0);
                }
                count += asked;
            }
            let earned = Duration::from_secs(HOUR.into()).mul_f64(BUDGET) + ADVANCE;
            let spent = cost * u32::try_from(count).unwrap();
            // A debt is forgotten in part where one start costs more than is ever saved.
            assert!(
                spent < earned.mul_f64(1.5) + 2 * cost,
                "{step:?} {cost:?}: {spent:?} of {earned:?}"
            );
            assert!(
                spent > earned.mul_f64(0.5),
                "{step:?} {cost:?}: {spent:?} of {earned:?}"
            );
        }
    }
}

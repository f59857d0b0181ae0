//! How many new threads may be taken in: a part of the budget is for that, and for what their ends cost the tracer.
//!
//! A thread has to be traced before it can be stopped. Programs that create threads all the time, which end before they could
//! be stopped, would have the tracer work for nothing else: so the gate tells of a new thread only while there is an allowance for
//! it. The others are left alone. They count as racing threads all the same, where the watchpoints are those of processors or
//! inherited, and are taken in if they are still there when it is looked for them.

use super::{
    budget::SEEN_AND_UNSEEN,
    part::{Part, SAVED},
};

/// What the tracer works each time that it hears of a thread, ns, until that was measured.
const USUAL_NEWS_NS: f64 = 10_000.0;
/// It hears of each thread when that is created and when it ends.
const NEWS: f64 = 2.0;

/// See the module.
#[derive(Debug)]
pub struct Adoption {
    part: Part,
    /// Some were left alone.
    has_left: bool,
}

impl Adoption {
    /// For a budget of such a share of the program's CPU time.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self {
            part: Part::new(share, USUAL_NEWS_NS),
            has_left: false,
        }
    }

    /// What a thread costs from its creation to its end, ns.
    fn cost_ns(&self) -> f64 {
        self.part.each_ns() * NEWS * SEEN_AND_UNSEEN
    }

    /// The program has used so much more CPU time, ns.
    pub fn earn(&mut self, used_ns: u64) {
        self.part.earn(used_ns, SAVED * self.cost_ns());
    }

    /// A thread was taken in, or was to be. Its end is paid for as well.
    pub fn took_in(&mut self) {
        self.part.spend(self.cost_ns());
        self.part.hear();
    }

    /// One has ended.
    pub const fn saw_end(&mut self) {
        self.part.hear();
    }

    /// Threads that it has heard of since [`Adoption::worked`].
    #[must_use]
    pub const fn heard(&self) -> u64 {
        self.part.heard()
    }

    /// The tracer has worked for so long since the last time, ns. Where it has heard of threads, all of it was for them: it was woken for
    /// that, as a rule.
    pub fn worked(&mut self, cpu_ns: u64) {
        self.part.worked(cpu_ns as f64);
    }

    /// There are more than may be taken in.
    pub const fn leave(&mut self) {
        self.has_left = true;
    }

    /// Whether there were, in this program.
    #[must_use]
    pub const fn has_left(&self) -> bool {
        self.has_left
    }

    /// Another program is executed.
    pub const fn forget(&mut self) {
        self.has_left = false;
    }

    /// How many threads may be taken in now.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        (self.part.left_ns() / self.cost_ns()).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hunt::part::{FIRST, PART},
        kernel::process::nanos,
    };

    const SECOND: u64 = 1_000_000_000;

    /// Check that what threads cost stays within their part of the budget, however many there are and whatever one costs, and that all
    /// of it is used.
    #[test]
    fn threads_stay_within_their_part() {
        for cost in [2_000, 15_000, 200_000] {
            let mut adoption = Adoption::new(0.01);
            let mut spent = 0;
            for _ in 0..1000 {
                adoption.earn(SECOND / 100);
                for _ in 0..adoption.allowance() {
                    adoption.took_in();
                    adoption.worked(cost);
                    adoption.saw_end();
                    adoption.worked(cost);
                    spent += 2 * cost;
                }
            }
            let part = (10 * SECOND) as f64 * 0.01 * PART;
            // The first ones cost what was not known then.
            let first = nanos(FIRST) as f64 * (1.0 + cost as f64 / USUAL_NEWS_NS);
            let charged = spent as f64 * SEEN_AND_UNSEEN;
            assert!(charged <= part + first, "{cost}: {spent}");
            assert!(charged > part / 2.0, "{cost}: {spent}");
        }
    }

    /// Check that many threads that are created at once cost what they cost, which is less for each, and that a quiet hour does not pay for a burst.
    #[test]
    fn little_is_saved() {
        let mut adoption = Adoption::new(0.01);
        let first = adoption.allowance();
        assert!(first > 64, "{first}");
        (0..64).for_each(|_| adoption.took_in());
        adoption.worked(64 * 1_000);
        assert!(adoption.allowance() > first);
        while adoption.allowance() > 0 {
            adoption.took_in();
        }
        adoption.earn(3600 * SECOND);
        assert_eq!(adoption.allowance(), SAVED as u64);
    }
}

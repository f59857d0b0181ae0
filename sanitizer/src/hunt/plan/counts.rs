//! What was seen of a site, or of many: sums, so that their order does not matter.

use serde::{Deserialize, Serialize};

use crate::learned::COUNTED;

/// Everything that is counted. All of it fades by the same half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Threads that came to where one was waited for.
    pub came: f64,
    /// For how long that was waited, s, whether somebody came or not.
    pub waited_s: f64,
    /// Waits in which nobody came.
    pub missed: f64,
    /// Looks and stalls in which another thread used the bytes.
    pub used: f64,
    /// Looks in which nobody did.
    pub unused: f64,
    /// Other threads' first accesses.
    pub met: f64,
    /// For how long those were waited for, s, where another thread uses the bytes.
    pub meeting_s: f64,
    /// Stalls in which nobody came.
    pub quiet: f64,
    /// For how long they lasted, all together, s.
    pub quiet_s: f64,
    /// Of these, stalls whose bytes were watched before the thread came.
    pub quiet_ahead: f64,
    /// Stalls that a lock has ended, or in which a holder was let pass.
    pub locked: f64,
    /// Stalls in which somebody was caught.
    pub caught: f64,
    /// Of these, stalls whose bytes were watched only when the thread stood.
    pub in_time: f64,
    /// Of those that have caught somebody, stalls that have shown a race which was not known.
    pub news: f64,
    /// Sites that race, of many; of one, whether it does.
    pub racing: f64,
    /// Sites at which an order shows, each as far as it does.
    pub ordered: f64,
    /// When all that was so much, s: less is left of it by now.
    #[serde(skip)]
    pub(super) as_of_s: f64,
}

/// What part is left at a time of what was so much at another one, s.
pub(super) fn left_of(as_of_s: f64, now_s: f64, half_life_s: f64) -> f64 {
    (-(now_s - as_of_s).max(0.0) / half_life_s).exp2()
}

impl Counts {
    /// What is left of it at a time, s.
    #[must_use]
    pub fn at(&self, now_s: f64, half_life_s: f64) -> Self {
        let left = left_of(self.as_of_s, now_s, half_life_s);
        let mut counts = *self;
        for count in counts.all() {
            *count *= left;
        }
        counts.as_of_s = self.as_of_s.max(now_s);
        counts
    }

    /// Adds what was seen at a time, s, to what is left of it by then.
    pub fn add_at(&mut self, now_s: f64, half_life_s: f64, other: Self) {
        *self = self.at(now_s, half_life_s);
        self.add(other);
    }

    /// Adds what was seen at that time.
    pub fn add(&mut self, mut other: Self) {
        for (count, more) in self.all().into_iter().zip(other.all()) {
            *count += *more;
        }
    }

    /// Takes out what was added at that time.
    pub fn take_out(&mut self, mut other: Self) {
        for (count, less) in self.all().into_iter().zip(other.all()) {
            *count = (*count - *less).max(0.0);
        }
    }

    /// So many times that.
    #[must_use]
    pub fn times(mut self, part: f64) -> Self {
        for count in self.all() {
            *count *= part;
        }
        self
    }

    /// All that is counted, in the order in which it is kept on disks.
    #[must_use]
    pub fn values(mut self) -> [f64; COUNTED] {
        self.all().map(|count| *count)
    }

    /// What such values count.
    #[must_use]
    pub fn of_values(values: [f64; COUNTED]) -> Self {
        let mut counts = Self::default();
        for (count, value) in counts.all().into_iter().zip(values) {
            *count = value;
        }
        counts
    }

    /// Whether all of it can be: numbers that were written elsewhere need not.
    #[must_use]
    pub fn is_sound(mut self) -> bool {
        /// Of anything: a second of every second for some hundred years.
        const MOST: f64 = 1e10;
        self.all()
            .iter()
            .all(|count| (0.0..MOST).contains(&**count))
    }

    fn all(&mut self) -> [&mut f64; COUNTED] {
        [
            &mut self.came,
            &mut self.waited_s,
            &mut self.missed,
            &mut self.used,
            &mut self.unused,
            &mut self.met,
            &mut self.meeting_s,
            &mut self.quiet,
            &mut self.quiet_s,
            &mut self.quiet_ahead,
            &mut self.locked,
            &mut self.caught,
            &mut self.in_time,
            &mut self.news,
            &mut self.racing,
            &mut self.ordered,
        ]
    }

    /// Whether anything was tried.
    #[must_use]
    pub fn tries(&self) -> f64 {
        self.came + self.missed
    }

    /// Whether a thread was waited for, or stopped: that somebody came is seen without that, too.
    #[must_use]
    pub fn shows_tries(&self) -> bool {
        /// Of so much less nothing is left.
        const LEAST: f64 = 0.5;
        let all = self.missed + self.used + self.unused + self.quiet + self.locked + self.caught;
        all >= LEAST
    }
}

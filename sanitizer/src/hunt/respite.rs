//! Which threads are let alone for a while, because the program's own signals stop them more often than the budget pays for.
//!
//! A traced thread stops before each signal that it receives, and also before those that it would never notice otherwise, such as the
//! one that tells of a child's end: that costs the program a few microseconds where its tracer is awake, and a tenth of a
//! millisecond where it has to be woken. A part of the budget is for that. When it is used up, the thread that stopped last is not
//! traced any more; it goes on with its signal, and runs as if nobody watched. It counts as racing thread all the same, where the
//! watchpoints are those of processors or its own, and is taken back when enough was saved for a few more stops. One that gets
//! no signals is never let alone, however many the others get.

use super::{
    budget::SEEN_AND_UNSEEN,
    part::{Part, SAVED},
};

/// A thread is taken back when there is enough for so many.
const ENOUGH: f64 = 32.0;
/// What a stop costs, ns, with what cannot be seen of it, until that was measured.
const USUAL_COST_NS: f64 = 50_000.0;

/// See the module.
#[derive(Debug)]
pub struct Respite {
    part: Part,
    /// Stops, ever.
    stops: u64,
    /// How often a thread was let alone.
    times: u64,
    /// Threads that are let alone at present, since when that has not changed, and how long all were until then, ns.
    alone: u64,
    since_ns: u64,
    alone_ns: u64,
}

impl Respite {
    /// For a budget of such a share of the program's CPU time.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self {
            part: Part::new(share, USUAL_COST_NS),
            stops: 0,
            times: 0,
            alone: 0,
            since_ns: 0,
            alone_ns: 0,
        }
    }

    /// The program has used so much more CPU time, ns.
    pub fn earn(&mut self, used_ns: u64) {
        self.part.earn(used_ns, SAVED * self.part.each_ns());
    }

    /// A thread has stopped on the program's own account, and stood so long until it was let go, ns.
    pub fn stopped(&mut self, stood_ns: u64) {
        self.part.spend(self.part.each_ns() + stood_ns as f64);
        self.part.hear();
        self.stops += 1;
    }

    /// Stops since [`Respite::worked`].
    #[must_use]
    pub const fn heard(&self) -> u64 {
        self.part.heard()
    }

    /// The tracer has worked for so long for the stops since the last time, ns.
    pub fn worked(&mut self, cpu_ns: u64) {
        self.part.worked(cpu_ns as f64 * SEEN_AND_UNSEEN);
    }

    /// Whether the thread that has just stopped is to be let alone: nothing is left.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.part.left_ns() < 0.0
    }

    /// Whether one may be taken back.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.part.left_ns() > ENOUGH * self.part.each_ns()
    }

    /// A thread is let alone from now on.
    pub const fn begin(&mut self) {
        self.times += 1;
    }

    /// One was taken back, which costs about as much as a stop, and is to be paid for some to come before the next one.
    pub fn end(&mut self) {
        self.part.spend(ENOUGH * self.part.each_ns() / 2.0);
    }

    /// So many threads are let alone from now on.
    pub const fn are_alone(&mut self, threads: u64, now_ns: u64) {
        self.alone_ns = self.alone_ns(now_ns);
        self.since_ns = now_ns;
        self.alone = threads;
    }

    /// How long threads were let alone until now, of all together, ns.
    #[must_use]
    pub const fn alone_ns(&self, now_ns: u64) -> u64 {
        let since = now_ns.saturating_sub(self.since_ns);
        self.alone_ns
            .saturating_add(since.saturating_mul(self.alone))
    }

    /// How often threads have stopped on the program's own account, and how often one was let alone.
    #[must_use]
    pub const fn counts(&self) -> [u64; 2] {
        [self.stops, self.times]
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

    /// A minute of a thread that uses a processor and gets a signal each `every` ns, each of which makes its tracer work so long; it
    /// is looked once a second whether it may be taken back. How long the tracer has worked, ns, and for how many seconds the thread
    /// was let alone.
    fn minute(respite: &mut Respite, every: u64, work: u64) -> (u64, f64) {
        let (mut spent, mut alone, mut now) = (0, false, 0);
        for _ in 0..60 {
            respite.earn(SECOND);
            if alone && respite.is_over() {
                respite.end();
                alone = false;
                respite.are_alone(0, now);
            }
            for signal in 0..SECOND / every {
                if !alone {
                    spent += work;
                    if respite.is_due() {
                        alone = true;
                        respite.begin();
                        respite.are_alone(1, now + signal * every);
                    }
                    respite.stopped(0);
                    respite.worked(work);
                }
            }
            now += SECOND;
        }
        (spent, respite.alone_ns(now) as f64 * 1e-9)
    }

    /// Check that signals cost no more than their part of the budget, however many there are and whatever one costs, and that the
    /// thread is traced for a part of the time all the same.
    #[test]
    fn signals_stay_within_their_part() {
        for (every, work) in [(30_000, 4_000), (300_000, 25_000), (2_000_000, 60_000)] {
            let mut respite = Respite::new(0.01);
            let (spent, alone_s) = minute(&mut respite, every, work);
            let charged = spent as f64 * SEEN_AND_UNSEEN;
            let part = (60 * SECOND) as f64 * 0.01 * PART;
            // The first ones cost what was not known then.
            let first = nanos(FIRST) as f64 * (1.0 + work as f64 * SEEN_AND_UNSEEN / USUAL_COST_NS);
            assert!(charged <= part + first, "{every}: {charged}");
            let [stops, times] = respite.counts();
            assert!(
                times > 10 && stops > 16 * times,
                "{every}: {stops}, {times}"
            );
            assert!((30.0..60.0).contains(&alone_s), "{every}: {alone_s}");
        }
    }

    /// Check that a program which gets few signals is never let alone, and that a quiet hour does not pay for a storm.
    #[test]
    fn few_signals_cost_nothing() {
        let mut respite = Respite::new(0.01);
        let (spent, alone_s) = minute(&mut respite, SECOND / 20, 20_000);
        assert_eq!(spent, 60 * 20 * 20_000);
        assert_eq!(alone_s, 0.0);
        assert_eq!(respite.counts(), [60 * 20, 0]);
        respite.earn(3600 * SECOND);
        let mut stops = 0;
        while !respite.is_due() {
            respite.stopped(0);
            stops += 1;
        }
        assert!((64..=128).contains(&stops), "{stops}");
        assert!(!respite.is_over());
    }

    /// Check that it is added up how long threads are let alone, and that to stand still for long is paid for as well.
    #[test]
    fn times_add_up() {
        let mut respite = Respite::new(0.01);
        respite.are_alone(2, 10 * SECOND);
        respite.are_alone(3, 11 * SECOND);
        assert_eq!(respite.alone_ns(12 * SECOND), 5 * SECOND);
        respite.are_alone(0, 12 * SECOND);
        assert_eq!(respite.alone_ns(20 * SECOND), 5 * SECOND);
        respite.stopped(nanos(FIRST));
        assert!(respite.is_due());
    }
}

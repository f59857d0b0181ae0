//! What may still be spent on watching: a share of the CPU time that is used, of a process or of the machine.
//!
//! A purse earns a share of the CPU time of its owner and saves no more than another, smaller share of what its owner has used in the last
//! ten minutes. So whatever the owner does, and whenever it is spent, what is spent in any ten minutes is at most `rate` of the CPU time in them, and
//! `ahead` of that in the busiest ten minutes that end within them: of an owner that works steadily, `rate + ahead`. One that has fallen idle
//! for ten minutes has nothing left that could be spent.
//!
//! An owner that uses little earns so little that this would never pay for anything: to begin costs as much as all that is saved. So whoever saves less than [`SMALL`] may save
//! all that was earned in the last ten minutes, up to that; and no ten minutes cost more than `rate + ahead` of the busiest ten that end within them, since what was spent in
//! the last ten is remembered.

use std::time::Duration;

/// The time over which spending is bounded.
pub const WINDOW: Duration = Duration::from_secs(600);
/// Pieces of it in which CPU time is remembered.
const PIECES: usize = 10;
/// Microseconds of a piece.
const PIECE_US: u64 = WINDOW.as_micros() as u64 / PIECES as u64;

/// What a purse may hold in any case, as far as it was earned in the last ten minutes.
pub const SMALL: Duration = Duration::from_millis(30);
/// Pieces of the window in which spending is remembered: one more, as the first one is over only in part.
const SPENT_PIECES: usize = PIECES + 1;
/// Microseconds of which spending is remembered as a number.
const SPENT_US: u64 = 250;

/// A share in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Millionths(u32);

impl Millionths {
    fn of(share: f64) -> Self {
        const ALL: f64 = 1e6;
        // Saturates.
        Self((share * ALL) as u32)
    }

    /// This share of a time.
    const fn times(self, us: u64) -> i64 {
        (us * self.0 as u64 / 1_000_000).cast_signed()
    }
}

/// See the module. Times are counted from any fixed moment.
#[derive(Clone, Debug)]
pub struct Purse {
    rate: Millionths,
    ahead: Millionths,
    /// What was spent in the piece of time that is going on and in those before, in [`SPENT_US`], rounded up; by the number of the piece.
    spent: [u16; SPENT_PIECES],
    /// Microseconds; less than 0 where a lease has cost more than there was, which the last stall of it may.
    left_us: i64,
    /// Milliseconds of CPU time in the piece of time that is going on, and in those before; by the number of the piece.
    used_ms: [u32; PIECES],
    /// The number of the piece that is going on.
    piece: u32,
    /// Microseconds that are too few for [`Purse::used_ms`].
    rest_us: u32,
}

impl Purse {
    /// An empty one, whose owner has used nothing. `rate`: what it earns, as a share of CPU time; `ahead`: what it may save.
    #[must_use]
    pub fn new(rate: f64, ahead: f64) -> Self {
        Self {
            rate: Millionths::of(rate),
            ahead: Millionths::of(ahead),
            spent: [0; SPENT_PIECES],
            left_us: 0,
            used_ms: [0; PIECES],
            piece: 0,
            rest_us: 0,
        }
    }

    /// Its owner has used CPU time until now, since the last time.
    pub fn earn(&mut self, now: Duration, cpu: Duration) {
        self.go_to(now);
        let us = micros(cpu);
        let all = us + u64::from(self.rest_us);
        self.rest_us = (all % 1000) as u32;
        let piece = self.piece as usize % PIECES;
        if let Some(used) = self.used_ms.get_mut(piece) {
            *used = used.saturating_add(u32::try_from(all / 1000).unwrap_or(u32::MAX));
        }
        let earned = self.left_us.saturating_add(self.rate.times(us));
        self.left_us = earned.min(self.most_us());
    }

    /// Something was spent.
    pub fn spend(&mut self, cost: Duration) {
        let us = micros(cost);
        self.left_us = self.left_us.saturating_sub(us.cast_signed());
        let piece = self.piece as usize % SPENT_PIECES;
        if let Some(spent) = self.spent.get_mut(piece) {
            let more = u16::try_from(us.div_ceil(SPENT_US)).unwrap_or(u16::MAX);
            *spent = spent.saturating_add(more);
        }
    }

    /// What may be spent now.
    pub fn left(&mut self, now: Duration) -> Duration {
        self.go_to(now);
        self.left_us = self.left_us.min(self.most_us());
        let left_us = self.left_us.min(self.allowed_us());
        Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
    }

    /// CPU time that the owner has used in the last ten minutes, or a little less than those.
    #[must_use]
    pub fn used_lately(&self) -> Duration {
        let ms = self.used_ms.iter().map(|&ms| u64::from(ms)).sum();
        Duration::from_millis(ms)
    }

    fn most_us(&self) -> i64 {
        let used = micros(self.used_lately());
        let small = self.rate.times(used).min(micros(SMALL).cast_signed());
        self.ahead.times(used).max(small)
    }

    /// What may be spent of the ten minutes that end now.
    fn allowed_us(&self) -> i64 {
        let used = micros(self.used_lately());
        let spent: u64 = self.spent.iter().map(|&spent| u64::from(spent)).sum();
        let all = self.rate.times(used) + self.ahead.times(used);
        all - (spent * SPENT_US).cast_signed()
    }

    /// Forgets what was used before the last ten minutes. It remembers less than those, never more, which is on the safe side.
    fn go_to(&mut self, now: Duration) {
        let piece = u32::try_from(micros(now) / PIECE_US).unwrap_or(u32::MAX);
        forget(&mut self.used_ms, self.piece, piece);
        forget(&mut self.spent, self.piece, piece);
        self.piece = self.piece.max(piece);
    }
}

/// Forgets what the places of the pieces behind `last`, up to `piece`, hold of those before; by the number of the piece.
fn forget<T: Default, const N: usize>(pieces: &mut [T; N], last: u32, piece: u32) {
    let gone = piece.saturating_sub(last).min(N as u32);
    for number in 0..gone {
        let place = (piece - number) as usize % N;
        if let Some(of_piece) = pieces.get_mut(place) {
            *of_piece = T::default();
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: f64 = 0.01;
    const AHEAD: f64 = 0.002;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Check that an owner who works steadily pays what he earns, and that one who falls idle keeps nothing.
    #[test]
    fn steady_and_idle() {
        let mut purse = Purse::new(RATE, AHEAD);
        assert_eq!(purse.left(secs(0)), secs(0));
        for second in 1..=3600 {
            purse.earn(secs(second), secs(1));
        }
        let saved = purse.left(secs(3600));
        let most = WINDOW.mul_f64(AHEAD);
        assert!(saved <= most && saved >= most.mul_f64(0.85), "{saved:?}");
        purse.spend(saved);
        assert_eq!(purse.left(secs(3600)), secs(0));
        purse.earn(secs(3610), secs(10));
        assert_eq!(purse.left(secs(3610)), Duration::from_millis(100));
        assert_eq!(purse.left(secs(3610 + 660)), secs(0));
        assert_eq!(purse.used_lately(), secs(0));
    }

    /// Check that what one stall has cost too much is paid back before anything else is spent.
    #[test]
    fn debts_are_paid() {
        let mut purse = Purse::new(RATE, AHEAD);
        purse.earn(secs(10), secs(10));
        purse.spend(Duration::from_millis(50));
        purse.earn(secs(12), secs(1));
        assert_eq!(purse.left(secs(12)), secs(0));
        purse.earn(secs(15), secs(3));
        assert!(purse.left(secs(15)) > secs(0));
    }

    proptest! {
        /// Check that whatever the owner does and whoever spends when, no ten minutes cost more than the bound.
        #[test]
        fn no_ten_minutes_cost_more(steps in prop::collection::vec((1u64..200, 0.0f64..8.0, 0.0f64..1.0), 1..300)) {
            let mut purse = Purse::new(RATE, AHEAD);
            // When, CPU time until then, what was spent then; seconds.
            let mut log: Vec<(f64, f64, f64)> = Vec::new();
            let mut now = 0;
            for (seconds, load, spends) in steps {
                now += seconds;
                let cpu = Duration::from_secs_f64(seconds as f64 * load);
                purse.earn(secs(now), cpu);
                let spent = purse.left(secs(now)).mul_f64(spends);
                purse.spend(spent);
                log.push((now as f64, cpu.as_secs_f64(), spent.as_secs_f64()));
            }
            let window = WINDOW.as_secs_f64();
            for &(end, ..) in &log {
                let within = |from: f64, to: f64| log.iter().filter(move |&&(at, ..)| from < at && at <= to);
                let used = |to: f64| within(to - window, to).map(|one| one.1).sum::<f64>();
                let cost: f64 = within(end - window, end).map(|one| one.2).sum();
                let busiest = within(end - window, end).map(|one| used(one.0)).fold(0.0, f64::max);
                let small = SMALL.as_secs_f64().min((RATE + AHEAD) * busiest);
                let most = (RATE * used(end) + AHEAD * busiest).max(small + RATE * used(end));
                prop_assert!(cost <= most.min((RATE + AHEAD) * busiest) + 1e-3, "{cost} {busiest}");
            }
        }
    }
}

//! What the program loses while one of its threads stands still, of that time: all of it where each thread has a
//! processor, more where others wait for what that one holds, and little where others were waiting for a processor.
//!
//! It is estimated from the CPU time that the program uses in stalls, and what it uses on average. That can mislead: a stall
//! begins when a thread has just become active, and whoever spins for a lock looks busy. So others make up for it, at most, as far as threads
//! of the program were seen to wait for processors, and a part is always taken as lost.

/// The least that is taken as lost.
const LEAST: f64 = 0.25;

/// Stalls before which nothing is known.
const FEW: f64 = 16.0;

/// What a forgetting leaves of the sums: programs change what they do.
const KEPT: f64 = 0.9;

/// Standard errors that are added to the estimate.
const ERRORS: f64 = 2.0;

/// Sums over stalls, times in seconds: the usual ones of a ratio estimator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    count: f64,
    stood: f64,
    lost: f64,
    stood_squared: f64,
    stood_by_lost: f64,
    lost_squared: f64,
    /// Threads that wait for a processor, on average.
    waiting: f64,
}

impl Loss {
    /// A thread stood still for `stood`, seconds. The program would have used `expected` seconds of CPU time
    /// meanwhile, all threads together, and has used `used`.
    pub fn saw(&mut self, stood: f64, expected: f64, used: f64) {
        let lost = expected - used;
        self.count += 1.0;
        self.stood += stood;
        self.lost += lost;
        self.stood_squared += stood * stood;
        self.stood_by_lost += stood * lost;
        self.lost_squared += lost * lost;
    }

    /// So many threads of the program were waiting for a processor lately, on average.
    pub const fn waits(&mut self, threads: f64) {
        self.waiting = threads;
    }

    /// Forgets a part of it.
    pub fn decay(&mut self) {
        let sums = [
            &mut self.count,
            &mut self.stood,
            &mut self.lost,
            &mut self.stood_squared,
            &mut self.stood_by_lost,
            &mut self.lost_squared,
        ];
        sums.into_iter().for_each(|sum| *sum *= KEPT);
    }

    /// What is lost, of the time that a thread stands still: the estimate and twice its standard error, within 1/4 and 1, and
    /// not less than what is left by as many threads as wait for a processor.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.count < FEW || self.stood <= 0.0 {
            return 1.0;
        }
        let ratio = self.lost / self.stood;
        let squares = self.lost_squared - 2.0 * ratio * self.stood_by_lost
            + ratio * ratio * self.stood_squared;
        let error = squares.max(0.0).sqrt() / self.stood;
        (ratio + ERRORS * error)
            .max(1.0 - self.waiting)
            .clamp(LEAST, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stall of 1 ms in a program that uses `before` processors, and `meanwhile` in the stall; each up to
    /// `noise` more or less.
    fn stalls(count: usize, before: f64, meanwhile: f64, noise: f64) -> Loss {
        const STOOD: f64 = 1e-3;
        let mut random = fastrand::Rng::with_seed(1);
        let mut loss = Loss::default();
        loss.waits(1.0);
        for _ in 0..count {
            let mut about = |cpus: f64| (cpus + noise * (2.0 * random.f64() - 1.0)) * STOOD;
            let (expected, used) = (about(before), about(meanwhile));
            loss.saw(STOOD, expected, used);
        }
        loss
    }

    /// Check that a thread with a processor of its own, and one that others wait for, are charged in full, and that
    /// one of many is not, but never for nothing.
    #[test]
    fn share_of_what_stands() {
        let shares = [
            (2.0, 1.0, 1.0),
            (2.0, 0.0, 1.0),
            (1.0, 0.5, 0.5),
            (2.0, 2.0, LEAST),
            (1.0, 1.3, LEAST),
        ];
        for (before, meanwhile, share) in shares {
            let told = stalls(300, before, meanwhile, 0.0).share();
            assert!((told - share).abs() < 1e-6, "{before} {meanwhile}: {told}");
        }
    }

    /// Check that nothing is taken as known from a few stalls, nor from figures that differ much.
    #[test]
    fn doubt_counts_as_loss() {
        assert_eq!(stalls(FEW as usize - 1, 2.0, 2.0, 0.0).share(), 1.0);
        assert_eq!(stalls(FEW as usize, 2.0, 2.0, 0.0).share(), LEAST);
        let certain = stalls(500, 1.0, 0.5, 0.4).share();
        assert!((0.48..0.58).contains(&certain), "{certain}");
        let estimate = stalls(20, 1.0, 0.5, 4.0);
        let (ratio, doubtful) = (estimate.lost / estimate.stood, estimate.share());
        let error = 4.0 * (2.0 / 3.0_f64).sqrt() / 20.0_f64.sqrt();
        let expected = (ratio + ERRORS * error).clamp(LEAST, 1.0);
        assert!((doubtful - expected).abs() < 0.3, "{doubtful} {expected}");
    }

    /// Check that what the program does now counts more than what it did, and that no input makes it useless.
    #[test]
    fn programs_change() {
        let mut loss = stalls(100, 1.0, 1.0, 0.0);
        assert_eq!(loss.share(), LEAST);
        for _ in 0..20 {
            loss.decay();
            for _ in 0..20 {
                loss.saw(1e-3, 2e-3, 1e-3);
            }
        }
        assert!(loss.share() > 0.9, "{}", loss.share());
        for _ in 0..20 {
            loss.decay();
        }
        assert_eq!(loss.share(), 1.0);
        loss.saw(0.0, 0.0, 0.0);
        assert!(loss.share().is_finite());
    }

    /// Check that nobody makes up for a thread who does not wait for a processor, whatever the figures say.
    #[test]
    fn only_who_waits_makes_up() {
        let mut loss = stalls(300, 1.0, 1.5, 0.0);
        for (waiting, share) in [(0.0, 1.0), (0.4, 0.6), (3.0, LEAST)] {
            loss.waits(waiting);
            assert!((loss.share() - share).abs() < 1e-9);
        }
    }
}

//! What comes of letting samples of CPU time stop threads, wherever those are.

use super::{counts::left_of, posterior::Gamma, prior};

/// See the module. All of it fades by the same half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Samples {
    /// Threads that were stopped.
    stopped: f64,
    /// What it has taken of time, s: to wait for a sample, whether one came or not, and what was done then.
    time_s: f64,
    /// Races that were to be expected of what could be done with them.
    races: f64,
    /// What it has cost of the budget, s.
    cost_s: f64,
    /// When all that was so much, s.
    as_of_s: f64,
}

impl Samples {
    fn fade(&mut self, now: f64) {
        let left = left_of(self.as_of_s, now, prior::HALF_LIFE);
        for sum in [
            &mut self.stopped,
            &mut self.time_s,
            &mut self.races,
            &mut self.cost_s,
        ] {
            *sum *= left;
        }
        self.as_of_s = self.as_of_s.max(now);
    }

    /// A thread was stopped, for which so many races are to be expected.
    pub fn stopped(&mut self, now: f64, races: f64) {
        self.fade(now);
        self.stopped += 1.0;
        self.races += races;
    }

    /// One was waited for, which has taken so much time and cost so much of the budget, s.
    pub fn took(&mut self, now: f64, time_s: f64, cost_s: f64) {
        self.fade(now);
        self.time_s += time_s;
        self.cost_s += cost_s;
    }

    /// What one may bring: races, as likely as it is thought to be; what it costs of the budget, s, and of time, where one may be had in so long.
    pub fn draw(&self, sample_s: f64, stop_s: f64, random: &mut fastrand::Rng) -> (f64, f64, f64) {
        /// More experience than this does not make it surer: programs change.
        const MOST: f64 = 30.0;
        let count = prior::SAMPLE_WEIGHT + self.stopped;
        let mean = (prior::SAMPLE * prior::SAMPLE_WEIGHT + self.races) / count;
        let events = count.min(MOST);
        let each = Gamma {
            events,
            time_s: events,
        };
        (
            mean * each.draw(random),
            (stop_s * prior::SAMPLE_WEIGHT + self.cost_s) / count,
            (sample_s * prior::SAMPLE_WEIGHT + self.time_s) / count,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what samples bring and cost is learned, and that it fades towards what was expected at first.
    #[test]
    fn experience_counts() {
        let mean = |samples: &Samples| {
            let mut random = fastrand::Rng::with_seed(1);
            let draws = (0..1000).map(|_| samples.draw(0.03, 2e-3, &mut random).0);
            draws.sum::<f64>() / 1000.0
        };
        let mut samples = Samples::default();
        assert!((mean(&samples) / prior::SAMPLE - 1.0).abs() < 0.1);
        for _ in 0..100 {
            samples.stopped(0.0, 0.5);
            samples.took(0.0, 2e-3, 10e-3);
        }
        assert!((0.4..0.5).contains(&mean(&samples)));
        let (_, budget, time) = samples.draw(0.03, 2e-3, &mut fastrand::Rng::with_seed(1));
        assert!((9e-3..10e-3).contains(&budget) && time < 0.03);
        samples.took(30.0 * prior::HALF_LIFE, 0.0, 0.0);
        assert!((mean(&samples) / prior::SAMPLE - 1.0).abs() < 0.1);
    }
}

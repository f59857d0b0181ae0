//! What is thought of an unknown probability or rate: a distribution that observations are added to.

/// A probability, between so much that speaks for it and so much that speaks against it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beta {
    /// What speaks for it: observations, and those that the prior counts for.
    pub yes: f64,
    /// What speaks against it.
    pub no: f64,
}

impl Beta {
    /// A prior: log-odds, and how many observations they count for.
    #[must_use]
    pub fn prior(log_odds: f64, weight: f64) -> Self {
        Self::around(1.0 / (1.0 + (-log_odds).exp()), weight)
    }

    /// A prior: a mean, and how many observations it counts for.
    #[must_use]
    pub fn around(mean: f64, weight: f64) -> Self {
        Self {
            yes: weight * mean,
            no: weight * (1.0 - mean),
        }
    }

    /// With so many observations more.
    #[must_use]
    pub fn with(self, yes: f64, no: f64) -> Self {
        Self {
            yes: self.yes + yes,
            no: self.no + no,
        }
    }

    /// What is to be expected.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.yes / (self.yes + self.no)
    }

    /// A value by chance, as likely as it is thought to be.
    pub fn draw(self, random: &mut fastrand::Rng) -> f64 {
        if self.no == 0.0 {
            return 1.0;
        }
        let (yes, no) = (gamma(self.yes, random), gamma(self.no, random));
        // Both may be too small for a number.
        if yes + no > 0.0 {
            yes / (yes + no)
        } else {
            f64::from(u8::from(random.f64() < self.mean()))
        }
    }
}

/// A rate: so many events in so much time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    /// Events: observed, and those that the prior counts for.
    pub events: f64,
    /// In how much time, s.
    pub time_s: f64,
}

impl Gamma {
    /// With so many observations more.
    #[must_use]
    pub fn with(self, events: f64, time_s: f64) -> Self {
        Self {
            events: self.events + events,
            time_s: self.time_s + time_s,
        }
    }

    /// What is to be expected, a second.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.events / self.time_s
    }

    /// A value by chance, as likely as it is thought to be.
    pub fn draw(self, random: &mut fastrand::Rng) -> f64 {
        gamma(self.events, random) / self.time_s
    }

    /// How likely there is an event within so many seconds, and for how long one waits for it on average, if no longer than that.
    #[must_use]
    pub fn within(self, seconds: f64) -> (f64, f64) {
        let left = self.time_s / (self.time_s + seconds);
        let nobody = left.powf(self.events);
        let power = self.events - 1.0;
        let waited = if power.abs() < 1e-6 {
            -self.time_s * left.ln()
        } else {
            self.time_s * (1.0 - nobody / left) / power
        };
        (1.0 - nobody, waited)
    }
}

/// A draw from the Gamma distribution of a shape and scale 1 (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
fn gamma(shape: f64, random: &mut fastrand::Rng) -> f64 {
    if shape < 1.0 {
        let uniform = 1.0 - random.f64();
        return gamma(shape + 1.0, random) * uniform.powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = normal(random);
        let v = 1.0 + c * normal;
        if v > 0.0 {
            let v = v * v * v;
            let uniform = 1.0 - random.f64();
            // What is well inside needs no logarithms (the squeeze of the same paper).
            if uniform < 1.0 - 0.0331 * normal.powi(4)
                || uniform.ln() < 0.5 * normal * normal + d - d * v + d * v.ln()
            {
                return d * v;
            }
        }
    }
}

/// A draw from the standard normal distribution (Marsaglia's polar method).
fn normal(random: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * random.f64() - 1.0, 2.0 * random.f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(mut draw: impl FnMut(&mut fastrand::Rng) -> f64) -> (f64, f64) {
        const DRAWS: usize = 100_000;
        let mut random = fastrand::Rng::with_seed(1);
        let draws: Vec<f64> = (0..DRAWS).map(|_| draw(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let squares = draws.iter().map(|draw| (draw - mean).powi(2));
        (mean, squares.sum::<f64>() / DRAWS as f64)
    }

    /// Check that what is to be expected of a wait is what comes out for rates that are drawn.
    #[test]
    fn waits_follow_the_rates() {
        for (events, time_s) in [(0.3, 0.01), (1.0, 0.05), (25.0, 5.0)] {
            let gamma = Gamma { events, time_s };
            let (chance, waited) = gamma.within(0.1);
            let comes = |rate: f64| 1.0 - (-rate * 0.1).exp();
            let (mean, _) = moments(|random| comes(gamma.draw(random)));
            assert!((mean - chance).abs() < 0.01, "{events}: {mean}");
            let (mean, _) = moments(|random| {
                let rate = gamma.draw(random).max(1e-9);
                comes(rate) / rate
            });
            assert!((mean / waited - 1.0).abs() < 0.02, "{events}: {mean}");
        }
    }

    /// Check that draws have the mean and the variance of their distributions, also where little was observed.
    #[test]
    fn draws_follow_the_distributions() {
        for (events, time_s) in [(0.3, 0.05), (1.0, 2.0), (25.0, 5.0)] {
            let gamma = Gamma { events, time_s };
            let (mean, variance) = moments(|random| gamma.draw(random));
            let expected = events / (time_s * time_s);
            assert!((mean / gamma.mean() - 1.0).abs() < 0.03, "{events}: {mean}");
            assert!((variance / expected - 1.0).abs() < 0.06, "{events}");
        }
        for (yes, no) in [(0.02, 0.3), (1.0, 1.0), (30.0, 10.0)] {
            let beta = Beta { yes, no };
            let (mean, variance) = moments(|random| beta.draw(random));
            let all = yes + no;
            let expected = yes * no / (all * all * (all + 1.0));
            assert!((mean / beta.mean() - 1.0).abs() < 0.05, "{yes}: {mean}");
            assert!((variance / expected - 1.0).abs() < 0.06, "{yes}");
        }
    }
}

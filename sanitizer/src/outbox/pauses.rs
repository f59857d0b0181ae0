//! How long is waited until a message is sent again.

use std::time::Duration;

/// When what is done.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// What comes so soon after something else goes with it.
    pub linger: Duration,
    /// The first pause.
    pub shortest: Duration,
    /// Each pause is twice the one before, up to this.
    pub longest: Duration,
    /// No collector is let alone for longer than this, whatever it says.
    pub most_wanted: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            linger: Duration::from_secs(1),
            shortest: Duration::from_secs(1),
            longest: Duration::from_secs(300),
            most_wanted: Duration::from_secs(3600),
        }
    }
}

/// The pauses since something was taken last.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    attempts: u32,
}

impl Pauses {
    /// Something was taken.
    pub(super) const fn end(&mut self) {
        self.attempts = 0;
    }

    /// The next pause. Of many hosts whose collector was away no two come back at the same time: each waits for somewhere between a half of it and all. `wanted`: what the collector asks for.
    pub(super) fn next(
        &mut self,
        timing: &Timing,
        wanted: Option<Duration>,
        random: &mut fastrand::Rng,
    ) -> Duration {
        let doubled = timing.shortest.saturating_mul(1 << self.attempts.min(20));
        self.attempts = self.attempts.saturating_add(1);
        let pause = doubled
            .min(timing.longest)
            .mul_f64(0.5 + random.f64() / 2.0);
        match wanted {
            // Not before, and not all at once.
            Some(wanted) => wanted.min(timing.most_wanted) + pause.min(timing.shortest),
            None => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that pauses grow to the longest one, differ, begin anew after a success, and are as long as the collector wants, within reason.
    #[test]
    fn pauses_grow() {
        let timing = Timing::default();
        let mut random = fastrand::Rng::with_seed(1);
        let mut pauses = Pauses::default();
        let all: Vec<_> = (0..12)
            .map(|_| pauses.next(&timing, None, &mut random))
            .collect();
        for (nth, pause) in all.iter().enumerate() {
            let full = timing.shortest.saturating_mul(1 << nth).min(timing.longest);
            assert!(*pause >= full / 2 && *pause <= full, "{nth}: {pause:?}");
        }
        assert_ne!(all[10], all[11]);
        pauses.end();
        assert!(pauses.next(&timing, None, &mut random) <= timing.shortest);
        let wanted = Duration::from_secs(17);
        let pause = pauses.next(&timing, Some(wanted), &mut random);
        assert!(
            pause >= wanted && pause <= wanted + timing.shortest,
            "{pause:?}"
        );
        let pause = pauses.next(&timing, Some(Duration::MAX), &mut random);
        assert!(pause <= timing.most_wanted + timing.shortest, "{pause:?}");
        for _ in 0..100 {
            assert!(pauses.next(&timing, None, &mut random) <= timing.longest);
        }
    }
}

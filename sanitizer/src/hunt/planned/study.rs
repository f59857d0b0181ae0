//! How long code may be read: the tracer's work for it is charged as all of its work is, and what goes into it is not there for stalls.

use std::time::Duration;

use crate::hunt::budget::SEEN_AND_UNSEEN;

/// The part of what comes in that may go into it.
const PART: f64 = 0.2;
/// What may go into it before anything has come in: what the program executes is unknown then.
const FIRST: Duration = Duration::from_millis(5);
/// What was not needed is kept until it is so much.
const KEPT: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug)]
pub(super) struct Study {
    /// How long code may still be read, seconds; negative where it was read for longer.
    left_s: f64,
    /// When that was looked at last.
    since: Duration,
}

impl Default for Study {
    fn default() -> Self {
        Self {
            left_s: FIRST.as_secs_f64(),
            since: Duration::ZERO,
        }
    }
}

impl Study {
    /// Whether there is time for it now, where so much comes in, seconds a second.
    pub(super) fn has_time(&mut self, now: Duration, income: f64) -> bool {
        let passed = now.saturating_sub(self.since).as_secs_f64();
        self.since = now;
        let earned = passed * income * PART / SEEN_AND_UNSEEN;
        let most = KEPT.as_secs_f64().max(self.left_s);
        self.left_s = (self.left_s + earned).min(most);
        self.left_s > 0.0
    }

    /// It was read for so long.
    pub(super) fn took(&mut self, time: Duration) {
        self.left_s -= time.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that code is read for its part of what comes in and no longer, whatever a look takes, and that an idle hour earns little.
    #[test]
    fn it_takes_its_part() {
        for (income, look_ms) in [(0.02, 1.0), (0.02, 8.0), (2.0, 1.0), (0.001, 0.3)] {
            let mut study = Study::default();
            let mut read_s = 0.0;
            for step in 0..6000 {
                if study.has_time(Duration::from_millis(step * 10), income) {
                    let time = Duration::from_secs_f64(look_ms * 1e-3);
                    read_s += time.as_secs_f64();
                    study.took(time);
                }
            }
            let part = 60.0 * income * PART / SEEN_AND_UNSEEN;
            let most = part + FIRST.as_secs_f64() + look_ms * 1e-3;
            let possible = 6000.0 * look_ms * 1e-3;
            assert!(read_s <= most, "{income} {look_ms}: {read_s}");
            assert!(read_s >= (part * 0.8).min(possible), "{income}: {read_s}");
        }
        let mut study = Study::default();
        assert!(study.has_time(Duration::from_secs(3600), 0.02));
        assert!(study.left_s <= KEPT.as_secs_f64());
    }
}

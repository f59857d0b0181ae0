//! For how long a process is let alone after it had to be released: for longer each time that this comes soon,
//! else for half the time at most for which it could be watched.

use std::time::{Duration, Instant};

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);
/// No pause is longer.
const LONGEST: Duration = Duration::from_mins(1);
/// A release that comes earlier than this after the last pause comes soon.
const SOON: Duration = Duration::from_secs(2);

/// The pauses of one process.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    last: Option<Duration>,
    /// When that one ended.
    since: Instant,
}

impl Pauses {
    /// Of a process that is watched from now on.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            last: None,
            since: now,
        }
    }

    /// A pause that begins now; how long it is.
    pub fn begin(&mut self, now: Instant) -> Duration {
        let watched = now.saturating_duration_since(self.since);
        let pause = match self.last {
            None => FIRST,
            Some(last) if watched < SOON => last.saturating_mul(2),
            Some(last) => last.min(watched / 2),
        };
        let pause = pause.clamp(FIRST, LONGEST);
        self.last = Some(pause);
        self.since = now + pause;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that releases that come soon after each other make pauses longer, up to a minute.
    #[test]
    fn longer_each_time() {
        let mut now = Instant::now();
        let mut pauses = Pauses::new(now);
        let mut lengths = Vec::new();
        for _ in 0..9 {
            now += Duration::from_millis(100);
            let pause = pauses.begin(now);
            now += pause;
            lengths.push(pause.as_secs_f64());
        }
        assert_eq!(lengths, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
    }

    /// Check that a process that can be watched for six seconds at a time is paused for three at most.
    #[test]
    fn shorter_again() {
        let mut now = Instant::now();
        let mut pauses = Pauses::new(now);
        for _ in 0..8 {
            now += pauses.begin(now);
        }
        for _ in 0..3 {
            now += Duration::from_secs(6);
            let pause = pauses.begin(now);
            assert_eq!(pause, Duration::from_secs(3));
            now += pause;
        }
        now += Duration::from_secs(3600);
        assert!(pauses.begin(now) <= Duration::from_secs(3));
    }
}

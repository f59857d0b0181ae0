//! How long to watch: what `--duration` says, from when watching begins.

use std::{future::pending, time::Duration};

use tokio::time::{Instant, sleep_until};

/// How long it may take until watching begins, at least: seconds on a machine that is busy.
const BEGINNING: Duration = Duration::from_secs(10);

/// When watching is over.
pub struct TimeLimit {
    duration: Option<Duration>,
    /// `None`: never, or after all that a clock will show.
    ends: Option<Instant>,
    has_begun: bool,
}

impl TimeLimit {
    /// A limit that counts from [`TimeLimit::begin`]; watching that does not begin is over, too, after the same time or ten seconds.
    #[must_use]
    pub fn new(duration: Option<Duration>, now: Instant) -> Self {
        let patience = duration.map(|duration| duration.max(BEGINNING));
        Self {
            duration,
            ends: patience.and_then(|patience| now.checked_add(patience)),
            has_begun: false,
        }
    }

    /// Watching begins. Later calls do nothing: a process that is watched again after an exec gets no more time.
    pub fn begin(&mut self, now: Instant) {
        if !self.has_begun {
            self.has_begun = true;
            self.ends = self.duration.and_then(|duration| now.checked_add(duration));
        }
    }

    /// Waits until the time is over.
    pub async fn is_over(&self) {
        match self.ends {
            Some(ends) => sleep_until(ends).await,
            None => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Check that the time counts from when watching begins, the first time, and that who never begins is not waited for without end.
    #[test]
    fn it_counts_from_the_beginning() {
        let now = Instant::now();
        let mut limit = TimeLimit::new(Some(SECOND), now);
        assert_eq!(limit.ends, Some(now + BEGINNING));
        limit.begin(now + 5 * SECOND);
        limit.begin(now + 9 * SECOND);
        assert_eq!(limit.ends, Some(now + 6 * SECOND));
        let long = TimeLimit::new(Some(100 * SECOND), now);
        assert_eq!(long.ends, Some(now + 100 * SECOND));
    }

    /// Check that there is none where none was asked for, nor for more time than there is.
    #[test]
    fn there_may_be_none() {
        let now = Instant::now();
        for duration in [None, Some(Duration::MAX)] {
            let mut limit = TimeLimit::new(duration, now);
            assert_eq!(limit.ends, None);
            limit.begin(now);
            assert_eq!(limit.ends, None);
        }
    }
}

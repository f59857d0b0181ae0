//! How long something has been going on that is to end in time: by the clock, or, where the same is to come out each time, by how often that was asked.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// What tells the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timekeeper {
    /// The clock.
    #[default]
    Clock,
    /// The number of questions: each takes as long as any other.
    Steps,
}

/// What is thought to be done between two questions.
const STEP: Duration = Duration::from_micros(20);

/// Something that has begun.
#[derive(Debug)]
pub enum Stint {
    /// At this time.
    Since(Instant),
    /// So many questions ago.
    Asked(Cell<u32>),
}

impl Timekeeper {
    /// Begins something.
    #[must_use]
    pub fn begin(self) -> Stint {
        match self {
            Self::Clock => Stint::Since(Instant::now()),
            Self::Steps => Stint::Asked(Cell::new(0)),
        }
    }
}

impl Stint {
    /// How long that is ago.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match self {
            Self::Since(begun) => begun.elapsed(),
            Self::Asked(times) => {
                times.set(times.get().saturating_add(1));
                STEP * times.get()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what goes by steps is over after the same number of them each time.
    #[test]
    fn steps_are_counted() {
        for _ in 0..2 {
            let stint = Timekeeper::Steps.begin();
            let steps = (0..).take_while(|_| stint.elapsed() < 5 * STEP);
            assert_eq!(steps.count(), 4);
        }
        let by_clock = Timekeeper::default().begin();
        assert!(matches!(by_clock, Stint::Since(_)));
    }
}

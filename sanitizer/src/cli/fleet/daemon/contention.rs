//! Whether another tool has breakpoints, or wants some: then it is to get all of them.
//!
//! What others have is seen while leases go on; what they had before that, with nobody in their way, is nothing new. And a process that gets none may use them itself, but two of them, one soon after the
//! other, do not.

use std::time::Duration;

use crate::fleet::schedule::ProcessId;

/// What was refused longer ago says nothing any more.
const LATELY: Duration = Duration::from_secs(120);

/// What others have of the breakpoints, as it seems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// The most that a processor has of theirs for whatever it executes.
    pub on_processors: usize,
    /// They have so many on processors, or in a thread, that one who wants another one of a processor does not get it beside ours.
    pub are_crowded: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contention {
    last: Option<(ProcessId, Duration)>,
    /// What others have on processors, and keep while processes are leased.
    kept: usize,
    /// The last look has seen more.
    is_suspected: bool,
}

impl Contention {
    /// A process got none. Whether somebody else has them, as it seems.
    pub fn refused(&mut self, process: ProcessId, now: Duration) -> bool {
        let before = self.last.replace((process, now));
        before.is_some_and(|(other, at)| other != process && now.saturating_sub(at) <= LATELY)
    }

    /// The first lease begins, beside what others have.
    pub const fn begin(&mut self, others: Others) {
        (self.kept, self.is_suspected) = (others.on_processors, false);
    }

    /// What others have while leases go on. Whether somebody has come: two looks in a row have seen him, since what ours have is told some milliseconds late, and others may only look, too.
    pub fn look(&mut self, others: Others) -> bool {
        self.kept = self.kept.min(others.on_processors);
        let has_come = others.on_processors > self.kept || others.are_crowded;
        std::mem::replace(&mut self.is_suspected, has_come) && has_come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that one process alone says nothing, however often, and a second one does, soon after it.
    #[test]
    fn two_of_them_tell() {
        let mut contention = Contention::default();
        let mut refused =
            |process, second| contention.refused(ProcessId(process), Duration::from_secs(second));
        assert!(!refused(1, 0) && !refused(1, 5));
        assert!(refused(2, 6) && refused(1, 7));
        assert!(!refused(1, 8) && !refused(2, 500));
    }

    /// Check that who has come is seen by two looks in a row, that what was there before is nobody, nor who goes, but who comes after him is; and that a first lease begins beside whatever there is.
    #[test]
    fn who_comes_is_seen() {
        let others = |on_processors| Others {
            on_processors,
            are_crowded: false,
        };
        let mut contention = Contention::default();
        contention.begin(others(1));
        let mut looks = |all: &[usize]| -> Vec<bool> {
            all.iter()
                .map(|&number| contention.look(others(number)))
                .collect()
        };
        assert_eq!(
            looks(&[1, 1, 2, 1, 2, 2]),
            [false, false, false, false, false, true]
        );
        assert_eq!(looks(&[1, 0, 1, 1]), [false, false, false, true]);
        contention.begin(others(1));
        assert!(!contention.look(others(1)) && !contention.look(others(1)));
        let crowd = Others {
            on_processors: 0,
            are_crowded: true,
        };
        assert!(!contention.look(crowd) && !contention.look(others(0)));
        assert!(!contention.look(crowd) && contention.look(crowd));
    }
}

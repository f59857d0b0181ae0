//! Whether another tool has the breakpoints: one process that gets none may use them itself, but two of them, one soon after the other, do not.

use std::time::Duration;

use crate::fleet::schedule::ProcessId;

/// What was refused longer ago says nothing any more.
const LATELY: Duration = Duration::from_secs(120);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contention {
    last: Option<(ProcessId, Duration)>,
}

impl Contention {
    /// A process got none. Whether somebody else has them, as it seems.
    pub fn refused(&mut self, process: ProcessId, now: Duration) -> bool {
        let before = self.last.replace((process, now));
        before.is_some_and(|(other, at)| other != process && now.saturating_sub(at) <= LATELY)
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
}

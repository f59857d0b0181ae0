//! When modules, threads and the delivery are looked after.

use std::time::Duration;

use crate::kernel::process::nanos;

/// How often they are.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// What has just been mapped is relocated by then, as a rule.
const SETTLING: Duration = Duration::from_millis(100);
/// Rounds between two decays of what the strategy has learned.
const DECAY_ROUNDS: u64 = 10;

/// See the module. Times are CLOCK_MONOTONIC, ns.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The next round; nothing before the first scan of the modules.
    housekeeping: Option<u64>,
    /// Before this time no scan for new modules is to be had, because the last one was dear.
    scan: u64,
    /// Rounds since the program began.
    rounds: u64,
}

impl Schedule {
    /// The modules are known: watching begins.
    pub(super) fn begin(&mut self, now: u64) {
        self.housekeeping = Some(now + nanos(SETTLING));
        self.rounds = 0;
    }

    /// Whether it has.
    pub(super) const fn has_begun(&self) -> bool {
        self.housekeeping.is_some()
    }

    /// When the next round is due.
    pub(super) const fn due(&self) -> Option<u64> {
        self.housekeeping
    }

    /// New modules are looked at again soon: when they are relocated.
    pub(super) fn hurry(&mut self, now: u64) {
        let soon = now + nanos(SETTLING);
        self.housekeeping = self.housekeeping.map(|due| due.min(soon));
    }

    /// Whether a round is due, which is begun.
    pub(super) fn begins_round(&mut self, now: u64) -> bool {
        let is_due = self.housekeeping.is_some_and(|due| now >= due);
        if is_due {
            self.housekeeping = Some(now + nanos(HOUSEKEEPING));
            self.rounds += 1;
        }
        is_due
    }

    /// The number of the present round.
    pub(super) const fn round(&self) -> u64 {
        self.rounds
    }

    /// Whether it is one in which something is forgotten.
    pub(super) const fn decays(&self) -> bool {
        self.rounds.is_multiple_of(DECAY_ROUNDS)
    }

    /// The modules were scanned: not again before this pause.
    pub(super) fn has_scanned(&mut self, now: u64, pause: Duration) {
        self.scan = now.saturating_add(nanos(pause));
    }

    /// Whether the modules may be scanned.
    pub(super) const fn may_scan(&self, now: u64) -> bool {
        now >= self.scan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Check that nothing is due before watching has begun, that rounds follow each other by a second and count from the program's beginning, and that new
    /// modules hurry the next one, but never delay it.
    #[test]
    fn rounds() {
        let mut schedule = Schedule::default();
        schedule.hurry(5);
        assert!(!schedule.has_begun() && !schedule.begins_round(u64::MAX));
        schedule.begin(SECOND);
        assert_eq!(schedule.due(), Some(SECOND + SECOND / 10));
        assert!(!schedule.begins_round(SECOND) && schedule.begins_round(2 * SECOND));
        assert!(!schedule.begins_round(3 * SECOND - 1));
        schedule.hurry(2 * SECOND);
        assert_eq!(schedule.due(), Some(2 * SECOND + SECOND / 10));
        schedule.hurry(3 * SECOND);
        assert_eq!(schedule.due(), Some(2 * SECOND + SECOND / 10));
        let mut decays = Vec::new();
        for round in 1..=20 {
            assert!(schedule.round() == round || schedule.begins_round((9 + round) * SECOND));
            decays.extend(schedule.decays().then_some(schedule.round()));
        }
        assert_eq!(decays, [10, 20]);
        schedule.begin(SECOND);
        assert_eq!(schedule.round(), 0);
    }

    /// Check that a dear scan has a pause after it.
    #[test]
    fn scans_have_pauses() {
        let mut schedule = Schedule::default();
        assert!(schedule.may_scan(0));
        schedule.has_scanned(SECOND, Duration::from_secs(2));
        assert!(!schedule.may_scan(2 * SECOND) && schedule.may_scan(3 * SECOND));
    }
}

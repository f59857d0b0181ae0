//! When modules, threads and the delivery are looked after.

use std::time::Duration;

use crate::kernel::process::nanos;

/// How often there is a round.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How seldom the program is looked at, at most, where that takes much of what it earns. Code that is loaded, and handlers of
/// signals that are installed, are seen this late then.
const LONGEST_REST: Duration = Duration::from_secs(4);
/// What has just been mapped is relocated by then, as a rule.
const SETTLING: Duration = Duration::from_millis(100);
/// Time between two decays of what was learned.
const DECAY: Duration = Duration::from_secs(10);

/// See the module. Times are CLOCK_MONOTONIC, ns.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The next round; nothing before the first scan of the modules.
    housekeeping: Option<u64>,
    /// Before this time no scan for new modules is to be had, because the last one was dear.
    scan: u64,
    /// Rounds since the program began.
    rounds: u64,
    /// Before this time the program is not looked at, because that was dear.
    look: u64,
    /// When something is forgotten next.
    decay: u64,
}

impl Schedule {
    /// The modules are known: watching begins.
    pub(super) fn begin(&mut self, now: u64) {
        self.housekeeping = Some(now + nanos(SETTLING));
        self.rounds = 0;
        self.look = 0;
        self.decay = now + nanos(DECAY);
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
        self.look = self.look.min(soon);
    }

    /// Whether a round is due; nothing is before the first scan of the modules.
    pub(super) fn is_round_due(&self, now: u64) -> bool {
        self.housekeeping.is_some_and(|due| now >= due)
    }

    /// The same; it is begun then.
    pub(super) fn begins_round(&mut self, now: u64) -> bool {
        let is_due = self.is_round_due(now);
        if is_due {
            self.housekeeping = Some(now + nanos(HOUSEKEEPING));
            self.rounds += 1;
        }
        is_due
    }

    /// Whether the program is to be looked at in this round.
    pub(super) const fn looks(&self, now: u64) -> bool {
        now >= self.look
    }

    /// To look at the program was so dear that it is not done again for so long, if that is not too long.
    pub(super) fn rest(&mut self, now: u64, rest: Duration) {
        // The next round may be a little early.
        let rest = rest.min(LONGEST_REST).saturating_sub(HOUSEKEEPING / 2);
        self.look = now + nanos(rest);
    }

    /// The number of the present round.
    pub(super) const fn round(&self) -> u64 {
        self.rounds
    }

    /// Whether something is to be forgotten in this round.
    pub(super) fn decays(&mut self, now: u64) -> bool {
        let is_due = now >= self.decay;
        if is_due {
            self.decay = now + nanos(DECAY);
        }
        is_due
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
        schedule.begin(SECOND);
        assert_eq!(schedule.round(), 0);
    }

    /// Check that the program is looked at more seldom where that is dear, but not for ever, and not where there are new modules.
    #[test]
    fn dear_looks() {
        let mut schedule = Schedule::default();
        schedule.begin(0);
        assert!(schedule.looks(SECOND / 10));
        for (rest_ms, looks) in [(0, 1), (1400, 1), (2100, 2), (60_000, 4)] {
            schedule.rest(0, Duration::from_millis(rest_ms));
            let first = (1..10).find(|&round| schedule.looks(round * SECOND));
            assert_eq!(first, Some(looks), "{rest_ms}");
        }
        schedule.hurry(SECOND);
        assert!(!schedule.looks(SECOND) && schedule.looks(2 * SECOND));
    }

    /// Check that things are forgotten each ten seconds, however far apart rounds are.
    #[test]
    fn decays() {
        let mut schedule = Schedule::default();
        schedule.begin(0);
        let mut decays = |now| schedule.decays(now * SECOND);
        assert!(!decays(9) && decays(11) && !decays(20) && decays(24));
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

//! How often each race was caught. A tracer tells a race with its stacks once; from then on it tells where the two threads were, by the addresses in its process.

use std::collections::HashMap;

use crate::report::{Finding, Race, Sighting};

/// Where the two threads of a race were, as a tracer tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meeting {
    /// The process.
    pub pid: u32,
    /// Run-time address of the stalled access.
    pub stalled: u64,
    /// Where the racing thread was after it ([`Finding::racing_place`]).
    pub racing: u64,
}

impl Meeting {
    pub(super) fn of(finding: &Finding) -> Self {
        Self {
            pid: finding.pid,
            stalled: finding.stalled.pc,
            racing: finding.racing_place(),
        }
    }
}

/// What a place is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// A race, which has been caught once more.
    Race,
    /// One that the user does not want to hear of.
    Suppressed,
    /// Nothing: what was told of it has been lost.
    Unknown,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// In the order in which they were caught first.
    races: Vec<Sighting>,
    by_fingerprint: HashMap<String, usize>,
    /// Of each place the race, or nothing where that is suppressed.
    by_meeting: HashMap<Meeting, Option<usize>>,
}

impl Sightings {
    /// A race was told with its stacks.
    pub(super) fn saw(&mut self, meeting: Meeting, race: &Race) {
        let races = &mut self.races;
        let fingerprint = race.fingerprint.clone();
        let index = *self
            .by_fingerprint
            .entry(fingerprint)
            .or_insert_with_key(|name| {
                races.push(Sighting {
                    fingerprint: name.clone(),
                    times: 0,
                    first: race.time.clone(),
                    last: race.time.clone(),
                });
                races.len() - 1
            });
        self.by_meeting.insert(meeting, Some(index));
        self.count(index, &race.time);
    }

    /// A race was told that the user does not want to hear of.
    pub(super) fn suppressed(&mut self, meeting: Meeting) {
        self.by_meeting.insert(meeting, None);
    }

    /// What is known of a place was caught there again, `now` (RFC 3339 in UTC).
    pub(super) fn again(&mut self, meeting: Meeting, now: &str) -> Again {
        match self.by_meeting.get(&meeting) {
            Some(&Some(index)) => {
                self.count(index, now);
                Again::Race
            }
            Some(None) => Again::Suppressed,
            None => Again::Unknown,
        }
    }

    fn count(&mut self, index: usize, time: &str) {
        if let Some(race) = self.races.get_mut(index) {
            race.times += 1;
            time.clone_into(&mut race.last);
        }
    }

    /// A process has ended, and its id may be another one's.
    pub(super) fn forget(&mut self, pid: u32) {
        self.by_meeting.retain(|meeting, _| meeting.pid != pid);
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Sighting> {
        self.races.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that races are counted over processes, by what tells them, and that one which is suppressed, or of a process that has ended, is none.
    #[test]
    fn races_are_counted() {
        let meeting = |pid, stalled| Meeting {
            pid,
            stalled,
            racing: 7,
        };
        let race = |fingerprint: &str, time: &str| Race {
            fingerprint: fingerprint.to_owned(),
            time: time.to_owned(),
            ..crate::report::sample::race()
        };
        let mut sightings = Sightings::default();
        sightings.saw(meeting(1, 1), &race("a", "t1"));
        sightings.saw(meeting(1, 2), &race("b", "t2"));
        sightings.suppressed(meeting(1, 3));
        assert_eq!(sightings.again(meeting(1, 1), "t3"), Again::Race);
        assert_eq!(sightings.again(meeting(1, 3), "t3"), Again::Suppressed);
        assert_eq!(sightings.again(meeting(1, 4), "t3"), Again::Unknown);
        sightings.saw(meeting(2, 1), &race("a", "t4"));
        sightings.forget(1);
        assert_eq!(sightings.again(meeting(1, 1), "t5"), Again::Unknown);
        let told: Vec<_> = sightings.all().iter().map(Sighting::told).collect();
        assert_eq!(told, ["3 times, from t1 to t4", "once, at t2"]);
    }
}

//! What is put into the store at once.

use serde::{Deserialize, Serialize};

use super::time::{is_time, millis_of, rfc3339};
use crate::report::{IDENTITY_VERSION, NoName, Race, SCHEMA, check_name, check_names};

/// How often a race is caught in an hour at most, as it is written: some million times a second would be more than any machine can do, and sums of it stay numbers.
pub(super) const MOST_TIMES: i64 = 1 << 32;

/// What is written in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// Races with all that is known of them.
    pub caught: Vec<Caught>,
    /// Races that were caught again.
    pub counted: Vec<Counted>,
    /// Programs that were watched, whether they have races or not.
    pub builds: Vec<Seen>,
}

impl Batch {
    /// Whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.caught.is_empty() && self.counted.is_empty() && self.builds.is_empty()
    }

    /// Lets nothing be later than this: the clock of another machine may be wrong, and what was caught last would be that for long.
    pub fn end_at(&mut self, now: i64) {
        for caught in &mut self.caught {
            caught.last = caught.last.map(|last| last.min(now));
            if millis_of(&caught.race.time) > Some(now) {
                caught.race.time = rfc3339(now);
            }
        }
        for counted in &mut self.counted {
            counted.last = counted.last.min(now);
        }
        for seen in &mut self.builds {
            seen.at = seen.at.min(now);
        }
    }

    /// Checks one that somebody else has made: all of it is what a store takes.
    ///
    /// # Errors
    /// Something is not.
    pub fn check(&self) -> Result<(), Unsound> {
        for Caught { race, .. } in &self.caught {
            Unsound::of_form(race.schema)?;
            Unsound::of_name(check_names(&race.identity), &race.identity.race)?;
            if !is_whole(race) {
                return Err(Unsound::Race(race.fingerprint.clone()));
            }
        }
        for Counted { race, .. } in &self.counted {
            Unsound::of_name(check_name(race), race)?;
            if !race.starts_with('r') || check_name(race).is_err() {
                return Err(Unsound::Name(race.clone()));
            }
        }
        let times = self.caught.iter().filter_map(|caught| caught.last);
        let times = times.chain(self.counted.iter().map(|counted| counted.last));
        let mut times = times.chain(self.builds.iter().map(|seen| seen.at));
        match times.find(|time| !is_time(*time)) {
            Some(time) => Err(Unsound::Time(time)),
            None => Ok(()),
        }
    }
}

/// Why a batch cannot be put into a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// Nothing is wrong with a race but that it is a newer gwp-race's.
    #[error(
        "a race has {0}, as a newer gwp-race makes it; update this one, until when the other one keeps what it has"
    )]
    Newer(String),
    /// A race is not whole.
    #[error(
        "the race {0} has no time or no identity that this gwp-race knows (that of version {IDENTITY_VERSION})"
    )]
    Race(String),
    /// A race that was caught again has the name of none.
    #[error(
        "{0} is no name of a race that this gwp-race knows (that of version {IDENTITY_VERSION})"
    )]
    Name(String),
    /// Something was at no time.
    #[error("{0} is no time: milliseconds since 1970, up to the year 9999")]
    Time(i64),
}

impl Unsound {
    /// Whether races of this form may be put into a store; nothing is said of those of forms before.
    ///
    /// # Errors
    /// It is a newer one.
    pub(crate) fn of_form(form: u32) -> Result<(), Self> {
        match form {
            0..=SCHEMA => Ok(()),
            newer => Err(Self::Newer(format!("the form {newer}"))),
        }
    }

    /// The same of a name.
    fn of_name(checked: Result<(), NoName>, name: &str) -> Result<(), Self> {
        match checked {
            Err(NoName::Version(version)) if version > IDENTITY_VERSION => {
                Err(Self::Newer(format!("the name {name}")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a race has what a store needs: the form and the names of this version, and a time.
#[must_use]
pub fn is_whole(race: &Race) -> bool {
    race.schema == SCHEMA && millis_of(&race.time).is_some() && check_names(&race.identity).is_ok()
}

/// Where something was caught. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Whereabouts {
    /// The machine.
    pub host: String,
    /// The control group of a service or pod.
    pub cgroup: String,
    /// The container's id.
    pub container: String,
}

impl Whereabouts {
    /// On a machine of which nothing else is known.
    pub fn on(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            ..Self::default()
        }
    }
}

/// A race that was caught, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caught {
    /// The record.
    pub race: Race,
    /// Where.
    pub place: Whereabouts,
    /// How often it was caught so.
    pub times: u64,
    /// When last, milliseconds since 1970; that of the record where it was caught once.
    #[serde(default)]
    pub last: Option<i64>,
}

/// A race of the store that was caught again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// What the race is called (`identity.race`).
    pub race: String,
    /// As [`Race::build`] tells it.
    pub build: String,
    /// The executable's path.
    pub exe: String,
    /// Where.
    pub place: Whereabouts,
    /// How often, since it was told before.
    pub times: u64,
    /// When last, milliseconds since 1970.
    pub last: i64,
}

/// A program that was watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// As [`Race::build`] tells it.
    pub build: String,
    /// The executable's path.
    pub exe: String,
    /// When, milliseconds since 1970.
    pub at: i64,
}

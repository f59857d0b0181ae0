//! What an outbox keeps, piece by piece.

use serde::{Deserialize, Serialize};

use crate::{
    learned::Learned,
    store::{Caught, Counted, Seen, digest_of, hour},
};

/// What an item is worth: the lowest are dropped first. The numbers stand in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// What was learned of functions, which others can learn as well.
    Learning = -1,
    /// A race of a build that the collector was told of before, with its stacks.
    Evidence = 0,
    /// That something which it was told of was seen again.
    Repeats = 1,
    /// A race of a build, or a build, that it knows nothing of.
    Sightings = 2,
}

impl Class {
    pub(super) const fn number(self) -> i64 {
        self as i64
    }

    pub(super) const fn of(number: i64) -> Self {
        match number {
            ..0 => Self::Learning,
            0 => Self::Evidence,
            1 => Self::Repeats,
            _ => Self::Sightings,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Item {
    /// A race that was caught.
    Caught(Box<Caught>),
    /// One that was caught again.
    Counted(Counted),
    /// A program that was watched.
    Seen(Seen),
    /// What was learned of functions.
    Learned(Learned),
}

impl Item {
    /// As it is kept.
    pub(super) fn record(&self) -> sqlx::Result<String> {
        serde_json::to_string(self).map_err(|error| sqlx::Error::Encode(error.into()))
    }

    /// Nothing where a record is none: a program of another version has written it, or the disk has changed it.
    pub(super) fn read(record: &str) -> Option<Self> {
        serde_json::from_str(record).ok()
    }

    /// What the collector is told of by it for the first time, or again.
    pub(super) fn subject(&self) -> Option<String> {
        match self {
            Self::Caught(caught) => Some(digest(&[
                "race",
                &caught.race.identity.race,
                &caught.race.build(),
            ])),
            Self::Seen(seen) => Some(digest(&["build", &seen.build])),
            Self::Counted(_) | Self::Learned(_) => None,
        }
    }

    pub(super) const fn class(&self, is_first: bool) -> Class {
        match self {
            Self::Learned(_) => Class::Learning,
            _ if is_first => Class::Sightings,
            Self::Caught(_) => Class::Evidence,
            Self::Counted(_) | Self::Seen(_) => Class::Repeats,
        }
    }

    /// Items of the same name are one.
    pub(super) fn name(&self, is_first: bool, record: &str) -> String {
        match self {
            // Two records of a race differ at least in their times.
            Self::Caught(_) => digest(&["caught", record]),
            // The same once more is what was handed over twice, and what others have seen has other figures.
            Self::Learned(_) => digest(&["learned", record]),
            Self::Counted(Counted {
                race,
                build,
                exe,
                place,
                last,
                ..
            }) => digest(&[
                "counted",
                race,
                build,
                exe,
                &place.host,
                &place.cgroup,
                &place.container,
                // The collector counts by the hour.
                &hour(*last).to_string(),
            ]),
            // When a build was seen first stays beside when it was seen last.
            Self::Seen(seen) if is_first => digest(&["first", &seen.build]),
            Self::Seen(seen) => digest(&["seen", &seen.build]),
        }
    }

    /// How much is lost when it is dropped.
    pub(super) fn weight(&self) -> i64 {
        match self {
            Self::Counted(counted) => i64::try_from(counted.times).unwrap_or(i64::MAX),
            Self::Caught(_) | Self::Seen(_) => 1,
            Self::Learned(learned) => i64::try_from(learned.functions.len()).unwrap_or(i64::MAX),
        }
    }

    /// One of the same name is added to it; false where that is the same once more.
    pub(super) fn add(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Counted(one), Self::Counted(other)) => {
                one.times = one.times.saturating_add(other.times);
                one.last = one.last.max(other.last);
                true
            }
            (Self::Seen(one), Self::Seen(other)) if other.at > one.at => {
                one.at = other.at;
                true
            }
            _ => false,
        }
    }

    /// What is left of a race without its stacks: how often it was caught.
    pub(super) fn without_evidence(self) -> Option<Self> {
        let Self::Caught(caught) = self else {
            return None;
        };
        let at = crate::store::millis_of(&caught.race.time).unwrap_or_default();
        Some(Self::Counted(Counted {
            build: caught.race.build(),
            race: caught.race.identity.race,
            exe: caught.race.exe,
            place: caught.place,
            times: caught.times,
            last: caught.last.map_or(at, |last| last.max(at)),
        }))
    }
}

/// Of several words, whatever is in them.
pub(super) fn digest(words: &[&str]) -> String {
    let mut text = String::new();
    for word in words {
        text.push_str(&word.len().to_string());
        text.push(':');
        text.push_str(word);
    }
    digest_of(&text)
}

//! What is put into the store at once.

use crate::report::Race;

/// What is written in one transaction.
#[derive(Clone, Debug, Default)]
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
}

/// Where something was caught. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug)]
pub struct Caught {
    /// The record.
    pub race: Race,
    /// Where.
    pub place: Whereabouts,
    /// How often it was caught so.
    pub times: u64,
    /// When last, milliseconds since 1970; that of the record where it was caught once.
    pub last: Option<i64>,
}

/// A race of the store that was caught again.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As [`Race::build`] tells it.
    pub build: String,
    /// The executable's path.
    pub exe: String,
    /// When, milliseconds since 1970.
    pub at: i64,
}

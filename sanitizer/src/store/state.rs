//! What is to be thought of a race: what people have said of it, and what has come of that since.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{triage::Said, verdict::Verdict};

/// What a race is at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody has said anything of it, or for a time only that is over (`open` is another word for it).
    #[value(alias = "open")]
    New,
    /// Somebody sees to it.
    Acknowledged,
    /// Somebody has seen that it is one, and it counts until it is mended.
    Confirmed,
    /// It does no harm.
    Benign,
    /// It is mended, and was caught in no build that was seen first after that.
    Fixed,
    /// It was said to be mended, and was caught in such a build.
    Regressed,
}

impl State {
    /// Of a race of which this is what counts of all that was said, and which is known since `newest_build` to be in the build where it was seen last of all.
    pub(super) fn of(said: Option<&Said>, newest_build: i64, now: i64) -> Self {
        let Some(said) = said.filter(|said| !said.is_over(now)) else {
            return Self::New;
        };
        match said.state {
            Verdict::New => Self::New,
            Verdict::Acknowledged => Self::Acknowledged,
            Verdict::Confirmed => Self::Confirmed,
            Verdict::Benign => Self::Benign,
            Verdict::Fixed if newest_build > said.said => Self::Regressed,
            Verdict::Fixed => Self::Fixed,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Acknowledged => "acknowledged",
            Self::Confirmed => "confirmed",
            Self::Benign => "benign",
            Self::Fixed => "fixed",
            Self::Regressed => "regressed",
        }
    }

    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::New,
        Self::Acknowledged,
        Self::Confirmed,
        Self::Benign,
        Self::Fixed,
        Self::Regressed,
    ];

    /// That of a word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == text)
    }

    /// Somebody has looked at it, and it is to trouble nobody.
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Benign)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

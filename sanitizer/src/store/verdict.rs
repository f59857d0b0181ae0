//! The words by which people judge races.

use serde::{Deserialize, Serialize};

/// What somebody says of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As if nothing had been said (`open` is another word for it).
    #[value(alias = "open")]
    New,
    /// It is one, and somebody sees to it.
    Acknowledged,
    /// It is one, and counts until it is mended.
    Confirmed,
    /// It does no harm.
    Benign,
    /// It is mended: in builds that are seen first after this, it is a new one.
    Fixed,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Acknowledged => "acknowledged",
            Self::Confirmed => "confirmed",
            Self::Benign => "benign",
            Self::Fixed => "fixed",
        }
    }

    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::New,
        Self::Acknowledged,
        Self::Confirmed,
        Self::Benign,
        Self::Fixed,
    ];

    /// That of a word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == text)
    }
}

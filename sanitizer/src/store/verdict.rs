//! The words by which people judge races.

use serde::{Deserialize, Serialize};

/// What somebody says of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As if nothing had been said.
    New,
    /// It is one, and somebody sees to it.
    Acknowledged,
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
            Self::Benign => "benign",
            Self::Fixed => "fixed",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let all = [Self::New, Self::Acknowledged, Self::Benign, Self::Fixed];
        all.into_iter().find(|verdict| verdict.name() == text)
    }
}

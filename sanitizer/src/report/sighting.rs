//! How often a race was caught, first and last.

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sighting {
    /// The race's.
    pub fingerprint: String,
    /// Stalls in which it was caught.
    pub times: u64,
    /// When it was caught first, RFC 3339 in UTC.
    pub first: String,
    /// When it was caught last, the same.
    pub last: String,
}

impl Sighting {
    /// In words.
    #[must_use]
    pub fn told(&self) -> String {
        match self.times {
            1 => format!("once, at {}", self.first),
            times => format!("{times} times, from {} to {}", self.first, self.last),
        }
    }
}

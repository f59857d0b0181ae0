//! Which kinds of accesses make a race.

use serde::{Deserialize, Serialize};

/// Which kinds of accesses met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RaceClass {
    /// Both accesses are plain.
    PlainPlain,
    /// One access is plain, the other atomic.
    PlainAtomic,
}

//! The processes that were worth a tracer and got none: counted, by name and by why.

use std::collections::BTreeMap;

/// So many names are told of.
const MOST_NAMES: usize = 64;
/// What those are called that are beyond it, or whose name is not known.
const OTHERS: &str = "others";

/// Why a process that was worth a tracer got none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It, or the session, had ended before it could have one.
    EndedEarly,
    /// So many processes were watched already as can be.
    Limit,
    /// The budget did not pay for another tracer while it lived.
    Budget,
    /// Its tracer could not watch it.
    Refused,
    /// Its file was gone, or the file system of that did not answer, before it was known whether it carries metadata.
    Unidentified,
    /// So much happened at a time that it was not told of what it executes, or that it was forked.
    Untold,
}

impl Reason {
    /// The name in the summary.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EndedEarly => "ended-early",
            Self::Limit => "limit",
            Self::Budget => "budget",
            Self::Refused => "refused",
            Self::Unidentified => "unidentified",
            Self::Untold => "untold",
        }
    }
}

/// Numbers of processes, by the name of the program and the reason's.
pub type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// See the module.
#[derive(Debug, Default)]
pub struct NotWatched {
    counts: Counts,
}

impl NotWatched {
    /// Counts some of a name, which may be empty where it is not known.
    pub fn count(&mut self, name: &str, reason: Reason, times: u64) {
        if times == 0 {
            return;
        }
        let is_new = !self.counts.contains_key(name);
        let name = if name.is_empty() || is_new && self.counts.len() >= MOST_NAMES {
            OTHERS
        } else {
            name
        };
        let counts = self.counts.entry(name.to_owned()).or_default();
        *counts.entry(reason.name().to_owned()).or_default() += times;
    }

    /// All that were counted.
    #[must_use]
    pub fn into_counts(self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that names are bounded, and none is lost in the sum.
    #[test]
    fn names_are_bounded() {
        let mut not_watched = NotWatched::default();
        for name in 0..1000 {
            not_watched.count(&format!("./{name}"), Reason::EndedEarly, 2);
        }
        not_watched.count("./0", Reason::Limit, 1);
        not_watched.count("", Reason::Untold, 3);
        let counts = not_watched.into_counts();
        assert_eq!(counts.len(), MOST_NAMES + 1);
        assert_eq!(counts["./0"]["limit"], 1);
        assert_eq!(counts[OTHERS]["untold"], 3);
        let sum: u64 = counts.values().flat_map(BTreeMap::values).sum();
        assert_eq!(sum, 2004);
    }
}

//! What has to be known of a recording before it is read in order: which words two threads use, how often each site is executed, and
//! in which order the threads synchronize.

use std::collections::HashMap;

use anyhow::Result;

use super::{
    format::{Recording, What},
    order::Turns,
};

/// Who uses a word.
#[derive(Clone, Copy, Debug)]
struct Users {
    first: u32,
    are_many: bool,
    write: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Census {
    words: HashMap<u64, Users>,
    executions: HashMap<u32, u64>,
    pub(super) turns: Turns,
}

impl Census {
    /// Reads a recording.
    pub(super) fn of(recording: &Recording) -> Result<Self> {
        let mut census = Self::default();
        let mut numbers = Vec::new();
        for (thread, entries) in (0..).zip(recording.entries()?) {
            for entry in entries {
                numbers.extend(entry.sequence.map(|sequence| (sequence, thread)));
                let What::Access(access) = entry.what else {
                    continue;
                };
                *census.executions.entry(entry.site).or_default() += 1;
                for (word, _) in access.words() {
                    let users = census.words.entry(word).or_insert(Users {
                        first: thread,
                        are_many: false,
                        write: false,
                    });
                    users.are_many |= users.first != thread;
                    users.write |= access.writes;
                }
            }
        }
        census
            .words
            .retain(|_, users| users.are_many && users.write);
        census.turns = Turns::sorted(numbers);
        Ok(census)
    }

    /// Whether several threads use a word, one of them to write.
    pub(super) fn is_contended(&self, word: u64) -> bool {
        self.words.contains_key(&word)
    }

    /// How often a site was executed.
    pub(super) fn executions(&self, site: u32) -> u64 {
        self.executions.get(&site).copied().unwrap_or(0)
    }

    /// The sites that were executed.
    pub(super) fn executed(&self) -> Vec<u32> {
        let mut sites: Vec<_> = self.executions.keys().copied().collect();
        sites.sort_unstable();
        sites
    }
}

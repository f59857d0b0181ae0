//! Which files have ended readers, and which of them are read no more.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use super::process::End;
use crate::symbols::FileIdentity;

/// A file that has ended so many readers is read no more.
const MOST_ENDS: u32 = 3;
/// Files that have ended readers and are remembered.
const MOST_REMEMBERED: usize = 1 << 12;
/// Files that are read no more and told by name.
const MOST_NAMED: usize = 16;

/// What has become of readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many were ended by what they read, or had to be.
    pub ended: u64,
    /// The files that are read no more, and why; of many some.
    pub unread: BTreeMap<String, String>,
}

/// See the module. Files are known by what tells them apart.
#[derive(Debug)]
pub(super) struct Ends<K = FileIdentity> {
    /// What readers read.
    reads: &'static str,
    /// How many readers a file has ended, and how the last one came to its end.
    of: HashMap<K, (u32, End)>,
    figures: Figures,
}

impl<K: Copy + Eq + Hash> Ends<K> {
    /// None yet, of readers that read this.
    pub(super) fn new(reads: &'static str) -> Self {
        Self {
            reads,
            of: HashMap::new(),
            figures: Figures::default(),
        }
    }

    pub(super) const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// A file has ended a reader. Why it is read no more, from now on.
    pub(super) fn note(&mut self, file: K, name: &str, end: End) -> Option<String> {
        self.figures.ended += 1;
        tracing::debug!(name, %end, "the process that reads {} has ended", self.reads);
        if self.of.len() >= MOST_REMEMBERED && !self.of.contains_key(&file) {
            self.of.clear();
        }
        let (count, last) = self.of.entry(file).or_insert((0, End::Unknown));
        *count += 1;
        *last = end;
        let why = self.unread(file)?;
        if self.figures.unread.len() < MOST_NAMED {
            self.figures.unread.insert(name.to_owned(), why.clone());
        }
        Some(why)
    }

    /// What to do about that.
    pub(super) fn mend(&self, file: K) -> &'static str {
        self.of.get(&file).map_or("", |(_, last)| last.mend())
    }

    /// Why a file is read no more.
    pub(super) fn unread(&self, file: K) -> Option<String> {
        let (count, last) = self.of.get(&file)?;
        (*count >= MOST_ENDS).then(|| {
            format!(
                "the process that reads {} came to its end {MOST_ENDS} times over that file (the last time: {last})",
                self.reads
            )
        })
    }
}

//! Where a program spends its time outside analyzed functions: what its owner would have to compile with the
//! metadata for more to be watched.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::hex::Hex;
use crate::symbols::Frame;

/// A function that is not analyzed, or code that has no name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unanalyzed {
    /// The function's demangled name, where the symbol table has one.
    pub function: Option<String>,
    /// The module's path as the target sees it; `None` where code is in no file.
    pub module: Option<String>,
    /// An address of it that was sampled: link-time in its module, run-time where there is none.
    pub offset: Hex,
    /// The share of all samples that were there, at least.
    pub percent: f64,
}

impl Unanalyzed {
    /// What a reader finds it by.
    #[must_use]
    pub fn name(&self) -> String {
        let Some(module) = &self.module else {
            return format!("code in no file, at {:#x}", self.offset.0);
        };
        let module = module.rsplit('/').next().unwrap_or_default();
        match &self.function {
            Some(function) => format!("{function} ({module}+{:#x})", self.offset.0),
            None => format!("{module}+{:#x}", self.offset.0),
        }
    }
}

/// Code without a name is told apart by pages.
const PAGE_BITS: u32 = 12;

/// So many places are kept; then the half with the fewest samples is forgotten.
const MOST: usize = 4096;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    module: Option<String>,
    function: Option<String>,
    page: Option<u64>,
}

/// Samples outside analyzed functions, by function.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// With an address of each, and how many there were at that one.
    counted: HashMap<Key, (u64, (u64, u64))>,
}

impl Elsewhere {
    /// Adds samples at one place.
    pub fn add(&mut self, frame: Frame, samples: u64) {
        let offset = if frame.module.is_some() {
            frame.offset
        } else {
            frame.pc
        };
        let page = frame.function.is_none().then_some(offset >> PAGE_BITS);
        let key = Key {
            module: frame.module,
            function: frame.function,
            page,
        };
        if self.counted.len() >= MOST && !self.counted.contains_key(&key) {
            self.forget_half();
        }
        let (all, most) = self.counted.entry(key).or_default();
        *all += samples;
        *most = (*most).max((samples, offset));
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<_> = self.counted.values().map(|&(all, _)| all).collect();
        let middle = counts.len() / 2;
        if middle < counts.len() {
            let (_, &mut middle, _) = counts.select_nth_unstable(middle);
            self.counted.retain(|_, (all, _)| *all > middle);
        }
    }

    /// Where most of so many samples were; nothing where none was elsewhere.
    #[must_use]
    pub fn hottest(&self, samples: u64) -> Option<Unanalyzed> {
        let rank = |(key, (all, most)): &(&Key, &(u64, (u64, u64)))| {
            (*all, *most, key.module.clone(), key.function.clone())
        };
        let (key, &(all, (_, offset))) = self.counted.iter().max_by_key(rank)?;
        Some(Unanalyzed {
            function: key.function.clone(),
            module: key.module.clone(),
            offset: Hex(offset),
            percent: 100.0 * all as f64 / samples.max(all).max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: Option<&str>, function: Option<&str>, offset: u64) -> Frame {
        Frame {
            pc: 0x7000_0000 + offset,
            module: module.map(str::to_owned),
            offset,
            function: function.map(str::to_owned),
            ..Frame::default()
        }
    }

    /// Check that however many places there are, a bounded number is kept, and the hottest of them is among them.
    #[test]
    fn many_places() {
        let mut elsewhere = Elsewhere::default();
        elsewhere.add(frame(Some("/lib/libhot.so"), None, 0x5010), 30);
        for page in 0..3 * MOST as u64 {
            elsewhere.add(frame(None, None, page << PAGE_BITS), 1 + page % 9);
            assert!(elsewhere.counted.len() <= MOST);
        }
        assert!(elsewhere.counted.len() > MOST / 8);
        assert_eq!(elsewhere.hottest(100).unwrap().name(), "libhot.so+0x5010");
    }

    /// Check that samples of one function count together wherever they are, and how each kind of place is named.
    #[test]
    fn the_hottest_function() {
        let mut elsewhere = Elsewhere::default();
        assert_eq!(elsewhere.hottest(10), None);
        elsewhere.add(frame(Some("/lib/libhot.so"), None, 0x5010), 30);
        let found = elsewhere.hottest(100).unwrap();
        assert_eq!(
            (found.name().as_str(), found.percent),
            ("libhot.so+0x5010", 30.0)
        );
        for offset in [0x1000, 0x2040] {
            elsewhere.add(
                frame(Some("/bin/app"), Some("crunch"), offset),
                20 + offset / 0x1000,
            );
        }
        let found = elsewhere.hottest(100).unwrap();
        assert_eq!(
            (found.name().as_str(), found.percent),
            ("crunch (app+0x2040)", 43.0)
        );
        elsewhere.add(frame(None, None, 0x3000), 50);
        assert_eq!(
            elsewhere.hottest(100).unwrap().name(),
            "code in no file, at 0x70003000"
        );
        // What one table misses must not make more than all.
        assert_eq!(elsewhere.hottest(10).unwrap().percent, 100.0);
    }
}

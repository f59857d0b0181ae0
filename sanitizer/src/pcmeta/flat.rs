//! Metadata as plain data, for whoever has it decoded by another process: functions, atomic instructions, and which functions are parts of
//! others. Where that came from is not told, nor the sizes of stack arguments.
//!
//! Whoever takes it in need not trust who has sent it: the tables are made anew, and whatever numbers they are made of, they are
//! sorted and without overlaps.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::format::Features;
use super::function_table::{FunctionTable, Functions, Unpacked};
use super::pc_set::PcSet;
use super::{MOST_BYTES, Metadata, StackArgs};
use crate::addr::LinkAddr;
use crate::bounded::{self, ascending, gaps};

/// More functions, with parts of them, than the largest programs have.
const MOST: usize = 1 << 22;
/// Of functions that were split.
const MOST_FRAGMENTS: usize = 1 << 21;
/// Atomic instructions: each takes four bytes at least of what is read.
const MOST_ATOMICS: usize = MOST_BYTES as usize / 4;

/// No function ends further behind the first address.
const REACH: u64 = 2 << 32;

#[derive(Serialize, Deserialize)]
struct Flat {
    base: LinkAddr,
    /// How far behind the one before each begins, its size, and what was recorded of it.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST>")]
    functions: Vec<(u32, u32, u8)>,
    /// How far each is behind the one before.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_ATOMICS>")]
    atomics: Vec<u32>,
    /// The same of parts, with the functions that they are of.
    #[serde(deserialize_with = "bounded::list::<_, _, MOST_FRAGMENTS>")]
    fragments: Vec<(u32, u32)>,
}

impl Metadata {
    /// What there is more of than is told, and how much of it is, should there be any.
    #[must_use]
    pub fn excess(&self) -> Option<(&'static str, usize)> {
        let counts = [
            (self.functions.len(), MOST, "functions and parts of them"),
            (self.fragments.len(), MOST_FRAGMENTS, "parts of functions"),
            (self.atomics.len(), MOST_ATOMICS, "atomic instructions"),
        ];
        let mut excess = counts.into_iter().filter(|&(count, most, _)| count > most);
        excess.next().map(|(_, most, what)| (what, most))
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.base.0.checked_add(REACH).is_none() {
            // Code beyond the last address.
            return Self::default().serialize(serializer);
        }
        let known = || self.functions.iter().filter(|function| function.size > 0);
        let functions = gaps(known().map(|function| function.start)).zip(known());
        let parts = gaps(self.fragments.iter().map(|&(start, _)| start));
        Flat {
            base: self.base,
            functions: functions
                .map(|(gap, function)| (gap, function.size, tag(&function)))
                .collect(),
            atomics: gaps(self.atomics.iter()).collect(),
            fragments: parts
                .zip(&self.fragments)
                .map(|(gap, &(_, of))| (gap, of))
                .collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = Flat::deserialize(deserializer)?;
        of_flat(flat).ok_or_else(|| D::Error::custom("functions that no file has"))
    }
}

fn of_flat(flat: Flat) -> Option<Metadata> {
    flat.base.0.checked_add(REACH)?;
    let mut functions = Functions::default();
    functions.reserve(flat.functions.len());
    let starts = ascending(flat.functions.iter().map(|&(gap, ..)| gap), 1);
    for (start, &(_, size, tag)) in starts.zip(&flat.functions) {
        let start = start?;
        if size == 0 {
            continue;
        }
        functions.push(Unpacked {
            start,
            size,
            features: Features(tag >> 4),
            version: (tag >> 1) & 7,
            loses_small_loads: tag & 1 != 0,
        });
    }
    let atomics = ascending(flat.atomics.iter().copied(), 1);
    let parts = ascending(flat.fragments.iter().map(|&(gap, _)| gap), 0);
    let fragments = parts.zip(&flat.fragments);
    Some(Metadata {
        base: flat.base,
        functions: FunctionTable::new(functions),
        atomics: PcSet::new(atomics.collect::<Option<_>>()?),
        stack_args: StackArgs::default(),
        fragments: fragments
            .map(|(start, &(_, of))| Some((start?, of)))
            .collect::<Option<_>>()?,
        sections: Vec::new(),
    })
}

/// What was recorded of a function, in a byte.
fn tag(function: &Unpacked) -> u8 {
    (function.features.0 & 15) << 4
        | (function.version & 7) << 1
        | u8::from(function.loses_small_loads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcmeta::Fragment;

    fn metadata(functions: &[(u32, u32)], atomics: &[u32]) -> Metadata {
        let mut all = Functions::default();
        for &(start, size) in functions {
            all.push(Unpacked {
                start,
                size,
                features: Features::ATOMICS,
                version: 2,
                loses_small_loads: start == 0x20,
            });
        }
        Metadata {
            base: LinkAddr(0x40_0000),
            functions: FunctionTable::new(all),
            atomics: PcSet::new(atomics.to_vec()),
            ..Metadata::default()
        }
    }

    /// Check that what was told is what was there: functions of any size, atomic instructions, and parts.
    #[test]
    fn told_and_taken_in() {
        let mut metadata = metadata(
            &[(0x10, 16), (0x20, 8), (0x100, 1 << 25), (0x8000_0000, 1)],
            &[0, 0x12, 0x7fff_ffff],
        );
        metadata.add_fragments(&[Fragment {
            range: LinkAddr(0x40_0040)..LinkAddr(0x40_0050),
            of: LinkAddr(0x40_0010),
        }]);
        let bytes = postcard::to_allocvec(&metadata).unwrap();
        let told: Metadata = postcard::from_bytes(&bytes).unwrap();
        assert!(told.functions().eq(metadata.functions()) && told.function_count() == 5);
        assert!(told.atomics().eq(metadata.atomics()) && told.atomic_count() == 3);
        assert_eq!(
            told.whole_of(LinkAddr(0x40_0040)),
            Some(LinkAddr(0x40_0010))
        );
        assert_eq!(told.whole_of(LinkAddr(0x40_0010)), None);
        for len in 0..bytes.len() {
            assert!(postcard::from_bytes::<Metadata>(&bytes[..len]).is_err());
        }
    }

    /// Check that what has more than is told is known for that, and that as much can be told.
    #[test]
    fn more_than_is_told() {
        let of = |parts: u32| {
            let mut metadata = metadata(&[(0x10, 16)], &[0x12]);
            metadata.fragments = (0..parts).map(|part| (part, 0x10)).collect();
            let bytes = postcard::to_allocvec(&metadata).unwrap();
            let told = postcard::from_bytes::<Metadata>(&bytes);
            assert_eq!(told.is_ok(), metadata.excess().is_none());
            metadata.excess()
        };
        let most = MOST_FRAGMENTS as u32;
        assert_eq!(of(most), None);
        assert_eq!(of(most + 1), Some(("parts of functions", MOST_FRAGMENTS)));
    }

    /// Check that functions which overlap are told apart where they are taken in, and that numbers beyond the last address are refused.
    #[test]
    fn lies() {
        let taken = |functions: Vec<(u32, u32, u8)>, atomics: Vec<u32>| {
            of_flat(Flat {
                base: LinkAddr(u64::MAX - REACH),
                functions,
                atomics,
                fragments: vec![(1, u32::MAX), (0, 7)],
            })
        };
        let one = taken(vec![(1, u32::MAX, 0xff), (1, u32::MAX, 0)], vec![u32::MAX]).unwrap();
        let sizes: Vec<u64> = one.functions().map(|function| function.size()).collect();
        assert_eq!(sizes, [1, u64::from(u32::MAX)]);
        assert!(!one.is_atomic(LinkAddr(7)));
        assert!(taken(vec![(1, 1, 0), (u32::MAX, 1, 0)], Vec::new()).is_none());
        assert!(taken(vec![(1, 1, 0), (0, 1, 0)], Vec::new()).is_none());
        assert!(taken(Vec::new(), vec![1, 0]).is_none());
        let none = taken(vec![(1, 0, 0)], Vec::new()).unwrap();
        assert_eq!(none.function_count(), 0);
    }
}

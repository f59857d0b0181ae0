//! The functions that the symbol table names beside those that the metadata tells of: where each begins and ends, and whether it is one of its own.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::addr::LinkAddr;
use crate::bounded::{self, ascending, gaps};
use crate::image::Image;
use crate::pcmeta::Metadata;
use crate::symbols::fragments::is_named_whole;

/// So many are kept.
const MOST: usize = 1 << 19;
/// No address is so far behind the file's first one.
const NOWHERE: u32 = u32::MAX;

/// What begins at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    start: u32,
    /// The size that the least public name has, and the largest of all.
    size: u32,
    largest: u32,
    /// How far away the next function is that the table names, in whatever code; 0 where there is none.
    room: u32,
    /// Whether a name says that it is a function, not a part of one.
    is_whole: bool,
}

/// See the module. Addresses are told from the file's first one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    pub(super) base: LinkAddr,
    /// Sorted.
    named: Vec<Named>,
    /// None is missing.
    are_all: bool,
}

/// A function that the symbol table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFunction {
    /// Where it begins.
    pub start: LinkAddr,
    /// Its size, by the least public of its names; 0 where that does not tell.
    pub size: u64,
    /// The largest size that any of its names has.
    pub largest: u64,
    /// How far away the next one is.
    pub room: Option<u64>,
}

impl Functions {
    /// Those of a file, in code of which the metadata does not tell.
    pub(super) fn of(image: &Image, base: LinkAddr, metadata: &Metadata) -> Self {
        let offset = |address: LinkAddr| u32::try_from(address.0.checked_sub(base.0)?).ok();
        let mut starts: Vec<u32> = image
            .each_function()
            .filter_map(|symbol| offset(symbol.address))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let is_wanted = |address| metadata.function_at(address).is_none();
        let (symbols, mut are_all) = image.kept_functions(|symbol| is_wanted(symbol.address));
        let size = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let mut named: Vec<Named> = Vec::new();
        for symbol in &symbols {
            let Some(start) = offset(symbol.address).filter(|&start| start != NOWHERE) else {
                continue;
            };
            let is_whole = is_named_whole(symbol);
            if let Some(last) = named.last_mut().filter(|last| last.start == start) {
                last.size = size(symbol.size);
                last.largest = last.largest.max(last.size);
                last.is_whole |= is_whole;
                continue;
            }
            if named.len() == MOST {
                are_all = false;
                break;
            }
            let next = starts.partition_point(|&other| other <= start);
            named.push(Named {
                start,
                size: size(symbol.size),
                largest: size(symbol.size),
                room: starts.get(next).map_or(0, |next| next - start),
                is_whole,
            });
        }
        named.shrink_to_fit();
        Self {
            base,
            named,
            are_all,
        }
    }

    /// The function that begins at an address or next before it, unless one lies between that the metadata tells of.
    #[must_use]
    pub fn before(&self, address: LinkAddr) -> Option<NamedFunction> {
        let named = self.find(address)?;
        let offset = |size: u32| u64::from(size);
        Some(NamedFunction {
            start: LinkAddr(self.base.0.wrapping_add(named.start.into())),
            size: offset(named.size),
            largest: offset(named.largest),
            room: (named.room > 0).then(|| named.room.into()),
        })
    }

    /// Whether a symbol names what begins at an address as a function of its own, not as a part of one.
    #[must_use]
    pub fn begins_at(&self, address: LinkAddr) -> bool {
        self.find(address)
            .is_some_and(|named| named.is_whole && self.offset(address) == Some(named.start))
    }

    /// Whether none is missing, so that what follows another one in the table does so in the file.
    #[must_use]
    pub const fn are_all(&self) -> bool {
        self.are_all
    }

    fn offset(&self, address: LinkAddr) -> Option<u32> {
        u32::try_from(address.0.checked_sub(self.base.0)?).ok()
    }

    fn find(&self, address: LinkAddr) -> Option<&Named> {
        let offset = self.offset(address)?;
        let after = self.named.partition_point(|named| named.start <= offset);
        let named = self.named.get(after.checked_sub(1)?)?;
        (named.room == 0 || offset - named.start < named.room).then_some(named)
    }

    /// What they keep in memory, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.named.capacity() * size_of::<Named>()
    }
}

/// As they are told: how far behind the one before each begins, its sizes, and how far away the next is.
#[derive(Serialize, Deserialize)]
struct Flat {
    base: LinkAddr,
    #[serde(deserialize_with = "bounded::list::<_, _, MOST>")]
    named: Vec<(u32, u32, u32, u32, bool)>,
    are_all: bool,
}

impl Serialize for Functions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let starts = gaps(self.named.iter().map(|named| named.start));
        Flat {
            base: self.base,
            named: starts
                .zip(&self.named)
                .map(|(gap, n)| (gap, n.size, n.largest, n.room, n.is_whole))
                .collect(),
            are_all: self.are_all,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Functions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = Flat::deserialize(deserializer)?;
        let starts = ascending(flat.named.iter().map(|&(gap, ..)| gap), 1);
        let named = starts.zip(&flat.named);
        let named = named.map(|(start, &(_, size, largest, room, is_whole))| {
            Some(Named {
                start: start?,
                size,
                largest,
                room,
                is_whole,
            })
        });
        Ok(Self {
            base: flat.base,
            named: named
                .collect::<Option<_>>()
                .ok_or_else(|| D::Error::custom("functions that are not in order"))?,
            are_all: flat.are_all,
        })
    }
}

//! Sections as they stand in a file, and what was read of them.

use crate::addr::LinkAddr;
use crate::image::Encoding;

use super::{Format, SectionKind};

/// One metadata section of a file, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct RawSection<'data> {
    /// Its name, which says what it holds.
    pub name: &'data str,
    /// Where the linker put it; its entries are relative to their own addresses.
    pub address: LinkAddr,
    /// Its bytes.
    pub data: &'data [u8],
    /// How numbers are written in it.
    pub encoding: Encoding,
}

/// What a metadata section turned out to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionSummary {
    /// Its name.
    pub name: String,
    /// What its entries describe.
    pub kind: SectionKind,
    /// The layouts of its entries, in the order of their first use. Entries of atomics are the
    /// same in version 1 and 2; where the section's name has no number, they show as version 1.
    pub formats: Vec<Format>,
    /// Its size in the file in bytes.
    pub bytes: u64,
    /// How many entries it has, duplicates included and padding not.
    pub entries: usize,
    /// How many of them point at no code: leftovers of functions that the linker discarded.
    pub discarded: usize,
    /// How many of them are functions without instructions, which are not listed: nothing can be in them.
    pub empty: usize,
}

//! The sections of block maps in a file.

use std::borrow::Cow;
use std::path::Path;

use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};
use crate::pcmeta::RawSection;
use crate::pcmeta::error::TableError;
use crate::pcmeta::reader::Reader;

use super::{BlockMapSection, FunctionBlocks, SHT_LLVM_BB_ADDR_MAP, entry};

/// The section type of LLVM 12 to 14 (later `SHT_LLVM_BB_ADDR_MAP_V0`): entries of version 0.
const SHT_LLVM_BB_ADDR_MAP_V0: u32 = 0x6fff_4c08;

/// A section of an image that is a block map.
pub(super) struct Found<'image> {
    name: &'image str,
    address: LinkAddr,
    data: Cow<'image, [u8]>,
    encoding: Encoding,
    is_old: bool,
}

impl Found<'_> {
    pub(super) fn section(&self) -> BlockMapSection<'_> {
        let raw = RawSection {
            name: self.name,
            address: self.address,
            data: &self.data,
            encoding: self.encoding,
        };
        BlockMapSection {
            raw,
            is_old: self.is_old,
        }
    }
}

/// Whether the sections of this type have entries without versions; nothing for those that are no block map.
pub(super) fn is_old(kind: u32) -> Option<bool> {
    match kind {
        SHT_LLVM_BB_ADDR_MAP => Some(false),
        SHT_LLVM_BB_ADDR_MAP_V0 => Some(true),
        _ => None,
    }
}

/// The sections of an image that are block maps.
pub(super) fn sections(image: &Image) -> impl Iterator<Item = Result<Found<'_>, TableError>> {
    image.sections().filter_map(|section| {
        let is_old = is_old(section.kind)?;
        Some(
            image
                .relocated(&section)
                .map_err(Into::into)
                .map(|data| Found {
                    name: section.name,
                    address: section.address,
                    data,
                    encoding: image.encoding(),
                    is_old,
                }),
        )
    })
}

/// Reads a section from its start to its end.
pub(super) fn read_section(
    section: &BlockMapSection<'_>,
    file: &Path,
    mut visit: impl FnMut(&FunctionBlocks) -> Result<(), &'static str>,
) -> Result<(), TableError> {
    let mut reader = Reader::new(section.raw.data, 0, section.raw.encoding);
    let mut function = FunctionBlocks::default();
    while !reader.is_at_end() {
        if !section.is_old {
            TableError::check_version(&reader, entry::NEWEST, file, section.raw.name)?;
        }
        let outcome = function.read(&mut reader, section.is_old);
        outcome
            .and_then(|()| visit(&function))
            .map_err(|what| TableError::malformed(file, section.raw.name, reader.at(), what))?;
    }
    Ok(())
}

//! The sections of a file, with their relocations.

use std::borrow::Cow;

use crate::addr::{FileOffset, LinkAddr};

use super::headers::{Headers, Section};
use super::{Image, ImageError, compressed, relocated};

/// One section of an image.
#[derive(Clone, Copy, Debug)]
pub struct SectionRef<'image> {
    /// Its index in the file.
    pub index: usize,
    /// Its name, empty where the file gives none.
    pub name: &'image str,
    /// Where the linker put it; zero for sections that are not loaded (debug information).
    pub address: LinkAddr,
    /// Where its bytes are in the file.
    pub offset: FileOffset,
    /// Its bytes as they stand in the file (compressed ones stay compressed); empty for
    /// sections without file content (`.bss`).
    pub data: &'image [u8],
    /// Its size in memory in bytes, which is also right for sections without file content.
    pub size: u64,
    /// What it holds, as `elf.h` and the makers of compilers number it (`sh_type`).
    pub kind: u32,
    /// Whether it is part of the loaded program.
    pub is_allocated: bool,
    /// Whether it holds instructions.
    pub is_executable: bool,
    /// Whether the program may write to it.
    pub is_writable: bool,
    /// Whether `data` is compressed (`SHF_COMPRESSED`).
    pub is_compressed: bool,
}

impl Image {
    /// The first section called `name`.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<SectionRef<'_>> {
        self.sections().find(|section| section.name == name)
    }

    /// Whether there are relocations for a section of an object file.
    pub(crate) fn has_relocations(&self, section: &SectionRef<'_>) -> bool {
        let index = self.relocations();
        self.is_object() && index.has_table(section.index)
    }

    /// All sections, in file order.
    pub fn sections(&self) -> impl Iterator<Item = SectionRef<'_>> {
        let headers = &self.inner.headers;
        headers
            .sections
            .iter()
            .enumerate()
            .map(|(index, section)| self.section_ref(headers, index, section))
    }

    /// The section's bytes, decompressed and with its relocations applied, as they are in a program that is loaded
    /// at its link address, or, of an object file, linked to the addresses that its sections have
    /// here. In a table of a position-independent file the addresses of code are
    /// nowhere else.
    ///
    /// # Errors
    /// The section cannot be decompressed, or one of its relocations is of a type that tables do not
    /// have.
    pub fn relocated(&self, section: &SectionRef<'_>) -> Result<Cow<'_, [u8]>, ImageError> {
        let headers = &self.inner.headers;
        let found = headers.sections.get(section.index);
        let data = found.map_or(&[][..], |section| section.data(self.data()));
        let bytes = match section.is_compressed {
            true => {
                compressed::decompress(data, headers.encoding, self.name(), section.name)?.into()
            }
            false => Cow::Borrowed(data),
        };
        if !headers.is_object && !section.is_allocated {
            return Ok(bytes);
        }
        relocated::relocated(
            self.data(),
            headers,
            self.relocations(),
            section.index,
            bytes,
            self.name(),
        )
    }

    pub(super) fn relocations(&self) -> &relocated::Index {
        let new = || relocated::Index::new(self.data(), &self.inner.headers);
        self.inner.relocations.get_or_init(new)
    }

    fn section_ref<'image>(
        &'image self,
        headers: &Headers,
        index: usize,
        section: &Section,
    ) -> SectionRef<'image> {
        let data = self.data();
        SectionRef {
            index,
            name: headers.section_name(data, section),
            address: section.address,
            offset: section.offset,
            data: section.data(data),
            size: section.size,
            kind: section.number,
            is_allocated: section.flags.allocated,
            is_executable: section.flags.executable,
            is_writable: section.flags.writable,
            is_compressed: section.flags.compressed,
        }
    }
}

//! Call frame information of one module: `.eh_frame` (Linux Standard Base, "Exception
//! Frames") and `.debug_frame` (DWARF 5, 6.4). Answers which rules recover the caller's
//! registers at an address.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameOffset, EndianArcSlice,
    FrameDescriptionEntry, LittleEndian, UnwindContext, UnwindSection, UnwindTableRow,
};

use super::eh_frame_hdr::EhFrameHdr;
use super::elf_file::ElfFile;
use super::unwind_rules::{self, Memory, Registers, Step};
use crate::image::Image;

pub(super) type Reader = EndianArcSlice<LittleEndian>;

const ADDRESS_SIZE: u8 = 8;

/// The unwind tables of a module.
#[derive(Debug, Default)]
pub(super) struct Cfi {
    eh_frame: Option<Table<EhFrame<Reader>>>,
    eh_frame_hdr: Option<EhFrameHdr>,
    debug_frame: Option<Table<DebugFrame<Reader>>>,
}

#[derive(Debug)]
struct Table<S: UnwindSection<Reader>> {
    section: S,
    /// The section's link-time address.
    addr: u64,
    bases: BaseAddresses,
    /// First and past-last link-time address of each entry, and where it stands; built when
    /// there is no search table in the file.
    index: OnceLock<Vec<(u64, u64, S::Offset)>>,
}

pub(super) fn reader(bytes: Arc<[u8]>) -> Reader {
    EndianArcSlice::new(bytes, LittleEndian)
}

impl Cfi {
    /// Reads the tables of a module and of its separate debug file.
    pub(super) fn read(file: &ElfFile, debug: Option<&ElfFile>) -> Self {
        let addr = |name: &str| file.section(name).map_or(0, |s| s.addr);
        let mut cfi = Self::of_sections(&addr, &|name| file.section_bytes(name));
        let debug_frame = file
            .section_bytes(".debug_frame")
            .or_else(|| debug?.section_bytes(".debug_frame"))
            .map(|bytes| {
                let mut section = DebugFrame::from(reader(bytes));
                section.set_address_size(ADDRESS_SIZE);
                Table::new(section, 0, BaseAddresses::default())
            });
        cfi.debug_frame = debug_frame;
        cfi
    }

    /// Takes the tables that are loaded with a module.
    pub(super) fn of_image(image: &Image) -> Self {
        let section = |name: &str| image.section(name).filter(|s| !s.data.is_empty());
        Self::of_sections(&|name| section(name).map_or(0, |s| s.address.0), &|name| {
            section(name).map(|s| Arc::from(s.data))
        })
    }

    /// `addr` and `bytes` answer for the sections of the file, by name.
    fn of_sections(addr: &dyn Fn(&str) -> u64, bytes: &dyn Fn(&str) -> Option<Arc<[u8]>>) -> Self {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(addr(".eh_frame_hdr"))
            .set_eh_frame(addr(".eh_frame"))
            .set_text(addr(".text"))
            .set_got(addr(".got"));
        let eh_frame = bytes(".eh_frame").map(|bytes| {
            let mut section = EhFrame::from(reader(bytes));
            section.set_address_size(ADDRESS_SIZE);
            Table::new(section, addr(".eh_frame"), bases)
        });
        let eh_frame_hdr = bytes(".eh_frame_hdr")
            .and_then(|bytes| EhFrameHdr::parse(bytes, addr(".eh_frame_hdr")));
        Self {
            eh_frame,
            eh_frame_hdr,
            debug_frame: None,
        }
    }

    /// The first and past-last link-time address of the `.eh_frame` entry that covers `lookup`.
    pub(super) fn extent(&self, lookup: u64) -> Option<Range<u64>> {
        let table = self.eh_frame.as_ref()?;
        if let Some(fde) = self.by_search_table(table, lookup) {
            return Some(fde.initial_address()..fde.end_address());
        }
        table.entry(lookup).map(|(start, end, _)| start..end)
    }

    /// Goes from the frame in `registers`, whose code is looked up at the link-time address
    /// `lookup`, to its caller. Nothing where no table covers the address.
    pub(super) fn step(
        &self,
        lookup: u64,
        registers: &Registers,
        memory: &dyn Memory,
    ) -> Option<Step> {
        self.step_eh_frame(lookup, registers, memory)
            .or_else(|| self.debug_frame.as_ref()?.step(lookup, registers, memory))
    }

    fn step_eh_frame(
        &self,
        lookup: u64,
        registers: &Registers,
        memory: &dyn Memory,
    ) -> Option<Step> {
        let table = self.eh_frame.as_ref()?;
        match self.by_search_table(table, lookup) {
            Some(fde) => table.step_in(&fde, lookup, registers, memory),
            None => table.step(lookup, registers, memory),
        }
    }

    fn by_search_table(
        &self,
        table: &Table<EhFrame<Reader>>,
        lookup: u64,
    ) -> Option<FrameDescriptionEntry<Reader>> {
        let offset = self.eh_frame_hdr.as_ref()?.entry_for(lookup)?;
        let offset = usize::try_from(offset.checked_sub(table.addr)?).ok()?;
        let fde = table
            .section
            .fde_from_offset(
                &table.bases,
                EhFrameOffset(offset),
                EhFrame::cie_from_offset,
            )
            .ok()?;
        (fde.initial_address()..fde.end_address())
            .contains(&lookup)
            .then_some(fde)
    }
}

impl<S: UnwindSection<Reader>> Table<S> {
    const fn new(section: S, addr: u64, bases: BaseAddresses) -> Self {
        Self {
            section,
            addr,
            bases,
            index: OnceLock::new(),
        }
    }

    fn index(&self) -> &[(u64, u64, S::Offset)] {
        self.index.get_or_init(|| {
            let mut index = Vec::new();
            let mut entries = self.section.entries(&self.bases);
            // What stands before a damaged entry is still good.
            while let Ok(Some(entry)) = entries.next() {
                if let CieOrFde::Fde(partial) = entry
                    && let Ok(fde) = partial.parse(S::cie_from_offset)
                {
                    let offset = S::Offset::from(fde.offset());
                    index.push((fde.initial_address(), fde.end_address(), offset));
                }
            }
            index.sort_by_key(|&(start, end, _)| (start, end));
            index
        })
    }

    /// First and past-last address of the entry that covers `lookup`, and where it stands.
    fn entry(&self, lookup: u64) -> Option<(u64, u64, S::Offset)> {
        let index = self.index();
        let after = index.partition_point(|&(start, ..)| start <= lookup);
        let &entry = index.get(after.checked_sub(1)?)?;
        (lookup < entry.1).then_some(entry)
    }

    fn step(&self, lookup: u64, registers: &Registers, memory: &dyn Memory) -> Option<Step> {
        let (_, _, offset) = self.entry(lookup)?;
        let fde = self
            .section
            .fde_from_offset(&self.bases, offset, S::cie_from_offset)
            .ok()?;
        self.step_in(&fde, lookup, registers, memory)
    }

    fn step_in(
        &self,
        fde: &FrameDescriptionEntry<Reader>,
        lookup: u64,
        registers: &Registers,
        memory: &dyn Memory,
    ) -> Option<Step> {
        let mut context = UnwindContext::new();
        let row: &UnwindTableRow<usize> = fde
            .unwind_info_for_address(&self.section, &self.bases, &mut context, lookup)
            .ok()?;
        unwind_rules::apply(
            &self.section,
            row,
            fde.cie().encoding(),
            fde.cie().return_address_register(),
            fde.is_signal_trampoline(),
            registers,
            memory,
        )
    }
}

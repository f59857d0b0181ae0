//! Call frame information of one module: `.eh_frame` (Linux Standard Base, "Exception
//! Frames") and `.debug_frame` (DWARF 5, 6.4). Answers which rules recover the caller's
//! registers at an address.

use std::ops::Range;
use std::sync::OnceLock;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameOffset, FrameDescriptionEntry,
    Register, UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};

use super::eh_frame_hdr::EhFrameHdr;
use super::elf_file::ElfFile;
use super::reader::Reader;
use super::unwind_rules::{self, Memory, Registers, Step};
use crate::image::Image;

const ADDRESS_SIZE: u8 = 8;
/// Entries of a table without a search table that are kept sorted, 24 bytes each. What stands behind them is not
/// found.
const MOST_ENTRIES: usize = 1 << 19;

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

impl Cfi {
    /// Reads the tables of a module and of its separate debug file.
    pub(super) fn read(file: &ElfFile, debug: Option<&ElfFile>) -> Self {
        let addr = |name: &str| file.section(name).map_or(0, |s| s.addr);
        let section = |file: &ElfFile, name: &str| file.section_reader(name).ok().flatten();
        let mut cfi = Self::of_sections(&addr, &|name| section(file, name));
        let debug_frame = section(file, ".debug_frame")
            .or_else(|| section(debug?, ".debug_frame"))
            .map(|contents| {
                let mut section = DebugFrame::from(contents);
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
            section(name).map(|s| Reader::of_image(image, s.offset.0, s.data.len()))
        })
    }

    /// `addr` and `contents` answer for the sections of the file, by name.
    fn of_sections(addr: &dyn Fn(&str) -> u64, contents: &dyn Fn(&str) -> Option<Reader>) -> Self {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(addr(".eh_frame_hdr"))
            .set_eh_frame(addr(".eh_frame"))
            .set_text(addr(".text"))
            .set_got(addr(".got"));
        let eh_frame = contents(".eh_frame").map(|contents| {
            let mut section = EhFrame::from(contents);
            section.set_address_size(ADDRESS_SIZE);
            Table::new(section, addr(".eh_frame"), bases)
        });
        let eh_frame_hdr = contents(".eh_frame_hdr")
            .and_then(|contents| EhFrameHdr::parse(contents, addr(".eh_frame_hdr")));
        Self {
            eh_frame,
            eh_frame_hdr,
            debug_frame: None,
        }
    }

    /// The first and past-last link-time address of the `.eh_frame` entry that covers `lookup`.
    #[cfg(test)]
    pub(super) fn extent(&self, lookup: u64) -> Option<Range<u64>> {
        let table = self.eh_frame.as_ref()?;
        if let Some(fde) = self.by_search_table(table, lookup) {
            return Some(fde.initial_address()..fde.end_address());
        }
        table.entry(lookup).map(|(start, end, _)| start..end)
    }

    /// The first and past-last link-time address of each `.eh_frame` entry, sorted; none where there are more than are
    /// kept, since the rest would be missed.
    pub(super) fn entries(&self) -> impl Iterator<Item = Range<u64>> {
        let index = self.eh_frame.as_ref().map_or(&[][..], Table::index);
        let is_whole = index.len() < MOST_ENTRIES;
        let index = if is_whole { index } else { &[] };
        index.iter().map(|&(start, end, _)| start..end)
    }

    /// Whether the `.eh_frame` entry that begins at an address says that something of a frame is set up there
    /// already; nothing where none begins there.
    pub(super) fn begins_within_frame(&self, start: u64) -> Option<bool> {
        let table = self.eh_frame.as_ref()?;
        let fde = match self.by_search_table(table, start) {
            Some(fde) => fde,
            None => table.fde(table.entry(start)?.2)?,
        };
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(&table.section, &table.bases, &mut context, start)
            .ok()?;
        let at_call = CfaRule::RegisterAndOffset {
            register: X86_64::RSP,
            offset: 8,
        };
        let return_address = fde.cie().return_address_register();
        let saves = |(register, _): &(Register, _)| *register != return_address;
        let is_within = *row.cfa() != at_call || row.registers().any(saves);
        (fde.initial_address() == start).then_some(is_within)
    }

    /// What is kept in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.eh_frame.as_ref().map_or(0, Table::bytes)
            + self.debug_frame.as_ref().map_or(0, Table::bytes)
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
            while index.len() < MOST_ENTRIES
                && let Ok(Some(entry)) = entries.next()
            {
                if let CieOrFde::Fde(partial) = entry
                    && let Ok(fde) = partial.parse(S::cie_from_offset)
                {
                    let offset = S::Offset::from(fde.offset());
                    index.push((fde.initial_address(), fde.end_address(), offset));
                }
            }
            index.sort_unstable_by_key(|&(start, end, _)| (start, end));
            index
        })
    }

    /// What is kept in memory.
    fn bytes(&self) -> usize {
        let index = self.index.get().map_or(0, Vec::capacity);
        index * size_of::<(u64, u64, S::Offset)>()
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
        self.step_in(&self.fde(offset)?, lookup, registers, memory)
    }

    fn fde(&self, offset: S::Offset) -> Option<FrameDescriptionEntry<Reader>> {
        let section = &self.section;
        (section.fde_from_offset(&self.bases, offset, S::cie_from_offset)).ok()
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

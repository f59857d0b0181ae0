//! Call frame information of one module: `.eh_frame` (Linux Standard Base, "Exception
//! Frames") and `.debug_frame` (DWARF 5, 6.4). Answers which rules recover the caller's
//! registers at an address.

use std::cell::OnceCell;
use std::sync::Arc;

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameOffset, EndianArcSlice,
    FrameDescriptionEntry, LittleEndian, UnwindContext, UnwindSection, UnwindTableRow,
};

use super::eh_frame_hdr::EhFrameHdr;
use super::elf_file::ElfFile;
use super::unwind_rules::{self, Memory, Registers, Step};

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
    index: OnceCell<Vec<(u64, u64, S::Offset)>>,
}

pub(super) fn reader(bytes: Arc<[u8]>) -> Reader {
    EndianArcSlice::new(bytes, LittleEndian)
}

impl Cfi {
    /// Reads the tables of a module and of its separate debug file.
    pub(super) fn read(file: &ElfFile, debug: Option<&ElfFile>) -> Self {
        let addr = |name| file.section(name).map_or(0, |s| s.addr);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(addr(".eh_frame_hdr"))
            .set_eh_frame(addr(".eh_frame"))
            .set_text(addr(".text"))
            .set_got(addr(".got"));
        let eh_frame = file.section_bytes(".eh_frame").map(|bytes| {
            let mut section = EhFrame::from(reader(bytes));
            section.set_address_size(ADDRESS_SIZE);
            Table::new(section, addr(".eh_frame"), bases.clone())
        });
        let eh_frame_hdr = file
            .section_bytes(".eh_frame_hdr")
            .and_then(|bytes| EhFrameHdr::parse(bytes, addr(".eh_frame_hdr")));
        let debug_frame = file
            .section_bytes(".debug_frame")
            .or_else(|| debug?.section_bytes(".debug_frame"))
            .map(|bytes| {
                let mut section = DebugFrame::from(reader(bytes));
                section.set_address_size(ADDRESS_SIZE);
                Table::new(section, 0, BaseAddresses::default())
            });
        Self {
            eh_frame,
            eh_frame_hdr,
            debug_frame,
        }
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
        let offset = self
            .eh_frame_hdr
            .as_ref()
            .and_then(|hdr| hdr.entry_for(lookup)?.checked_sub(table.addr))
            .and_then(|offset| usize::try_from(offset).ok());
        if let Some(offset) = offset
            && let Ok(fde) = table.section.fde_from_offset(
                &table.bases,
                EhFrameOffset(offset),
                EhFrame::cie_from_offset,
            )
            && (fde.initial_address()..fde.end_address()).contains(&lookup)
        {
            return table.step_in(&fde, lookup, registers, memory);
        }
        table.step(lookup, registers, memory)
    }
}

impl<S: UnwindSection<Reader>> Table<S> {
    const fn new(section: S, addr: u64, bases: BaseAddresses) -> Self {
        Self {
            section,
            addr,
            bases,
            index: OnceCell::new(),
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

    fn step(&self, lookup: u64, registers: &Registers, memory: &dyn Memory) -> Option<Step> {
        let index = self.index();
        let after = index.partition_point(|&(start, ..)| start <= lookup);
        let &(_, end, offset) = index.get(after.checked_sub(1)?)?;
        if lookup >= end {
            return None;
        }
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

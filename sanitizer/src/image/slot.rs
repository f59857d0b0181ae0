//! The cells that a dynamic linker fills with the addresses of functions: what `.rela.plt` and
//! `.rela.dyn` say of the global offset table (System V ABI for x86-64, 4.4.1, table 4.9).

use super::bytes::c_string;
use super::headers::{Headers, SectionKind};
use super::machine::Machine;
use super::relocations;
use super::symbol::Entry;
use crate::addr::LinkAddr;

const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;
const R_X86_64_IRELATIVE: u32 = 37;

/// What a cell is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotTarget<'image> {
    /// The definition of a symbol, wherever it is.
    Symbol(&'image str),
    /// What the function at this address of the same file answers (`STT_GNU_IFUNC`).
    Resolver(LinkAddr),
}

/// A cell of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<'image> {
    /// Where it is.
    pub address: LinkAddr,
    /// What it is filled with.
    pub target: SlotTarget<'image>,
}

/// The cells that the relocations for a program or library name, in file order. Entries that are
/// damaged are left out.
pub(super) fn slots<'data>(data: &'data [u8], headers: &Headers) -> Vec<Slot<'data>> {
    let mut slots = Vec::new();
    if headers.machine != Machine::X86_64 {
        return slots;
    }
    let is_table = |kind| matches!(kind, SectionKind::Relocations(_));
    for table in (headers.sections.iter())
        .filter(|section| is_table(section.kind) && section.flags.allocated)
    {
        let symbols = headers.sections.get(table.link as usize);
        let symbols = symbols.filter(|section| section.kind == SectionKind::DynamicSymbolTable);
        let names = symbols.and_then(|symbols| headers.sections.get(symbols.link as usize));
        let name_of = |symbol: u32| {
            let entry = Entry::nth(symbols?.data(data), headers.encoding, symbol)?;
            let name = c_string(names?.data(data), entry.name as usize)?;
            str::from_utf8(name).ok().filter(|name| !name.is_empty())
        };
        let (relocations, _) = relocations::of_table(data, headers, table);
        slots.extend(relocations.iter().filter_map(|relocation| {
            let target = match relocation.kind {
                R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT => {
                    SlotTarget::Symbol(name_of(relocation.symbol)?)
                }
                R_X86_64_IRELATIVE => SlotTarget::Resolver(LinkAddr(relocation.addend?)),
                _ => return None,
            };
            let address = LinkAddr(relocation.offset);
            Some(Slot { address, target })
        }));
    }
    slots
}

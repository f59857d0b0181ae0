//! The cells that a dynamic linker fills with the addresses of functions: what `.rela.plt` and
//! `.rela.dyn` say of the global offset table (System V ABI for x86-64, 4.4.1, table 4.9).

use super::bytes::{c_string, u32_at, u64_at};
use super::headers::{Headers, SectionKind};
use crate::addr::LinkAddr;

/// `sizeof(Elf64_Rela)`.
const RELA_SIZE: usize = 24;
/// `sizeof(Elf64_Sym)`.
const SYM_SIZE: usize = 24;
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
    for table in headers
        .sections
        .iter()
        .filter(|section| section.kind == SectionKind::Relocations && section.flags.allocated)
    {
        let symbols = headers.sections.get(table.link as usize);
        let symbols = symbols.filter(|section| section.kind == SectionKind::DynamicSymbolTable);
        let names = symbols.and_then(|symbols| headers.sections.get(symbols.link as usize));
        let name_of = |symbol: u32| {
            let start = usize::try_from(symbol).ok()?.checked_mul(SYM_SIZE)?;
            let entry = symbols?.data(data).get(start..)?;
            let name = c_string(names?.data(data), u32_at(entry, 0)? as usize)?;
            str::from_utf8(name).ok().filter(|name| !name.is_empty())
        };
        slots.extend(table.data(data).chunks_exact(RELA_SIZE).filter_map(|rela| {
            let (kind, symbol) = (u32_at(rela, 8)?, u32_at(rela, 12)?);
            let target = match kind {
                R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT => SlotTarget::Symbol(name_of(symbol)?),
                R_X86_64_IRELATIVE => SlotTarget::Resolver(LinkAddr(u64_at(rela, 16)?)),
                _ => return None,
            };
            let address = LinkAddr(u64_at(rela, 0)?);
            Some(Slot { address, target })
        }));
    }
    slots
}

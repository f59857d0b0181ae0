//! Where a program counter stands, and what its module tells of that.

use std::ops::Range;

use gwp_race_abi::sample;

use super::Loaded;
use crate::{
    addr::LinkAddr,
    hunt::{code_tables::CodeTables, routines::LONGEST_FUNCTION},
    insn::x86_64,
    pcmeta::Function,
    symbols::Frames,
};

/// Where a program counter stands.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The module.
    pub module: &'a Loaded,
    /// The address as its linker laid it out.
    pub link: LinkAddr,
}

impl<'a> Place<'a> {
    /// The covered function around the address.
    #[must_use]
    pub fn function(&self) -> Option<Function> {
        self.module.metadata.as_ref()?.function_at(self.link)
    }

    /// Whether the address is in a known memory routine.
    #[must_use]
    pub fn is_mem_routine(&self) -> bool {
        self.routine().is_some()
    }

    /// Whether a clock sample here may lead to an access that can be judged.
    #[must_use]
    pub fn is_worth_sampling(&self) -> bool {
        let has_metadata = self.module.metadata.is_some();
        !self.is_cut()
            && sample::is_worth_it(self.module.functions, has_metadata, self.is_mem_routine())
    }

    /// Whether an access here can be judged: in an analyzed function or a memory routine.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.is_mem_routine()
            || self
                .function()
                .is_some_and(|function| function.is_analyzed())
    }

    /// Whether the module's file was not all there any more when something was looked up in it.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.module.module.image.is_cut()
    }

    /// Whether an atomic instruction ends here.
    #[must_use]
    pub fn ends_atomic(&self) -> bool {
        let Some(metadata) = &self.module.metadata else {
            return false;
        };
        (1..=x86_64::MAX_INSTRUCTION_LEN).any(|len| {
            let start = LinkAddr(self.link.0.wrapping_sub(len as u64));
            metadata.is_atomic(start)
                && self
                    .module
                    .module
                    .image
                    .bytes_at(start, len)
                    .and_then(x86_64::length)
                    == Some(len)
        })
    }

    /// The unwind tables of the module.
    #[must_use]
    pub fn frames(&self) -> &'a Frames {
        self.module.module.image.frames()
    }

    /// What else is known of the module's code, as far as that was [asked](super::ModuleSet::read_code_tables).
    #[must_use]
    pub fn code_tables(&self) -> &'a CodeTables {
        &self.module.code_tables
    }

    /// Whether the return address is on top of the stack wherever a thread stands in the routines
    /// to which the address belongs: none of them moves the stack pointer. Nothing is said of more of them than real ones have code.
    #[must_use]
    pub fn routine_keeps_stack(&self) -> bool {
        let image = &self.module.module.image;
        let mut left = LONGEST_FUNCTION;
        let mut keeps_stack = |range: &Range<LinkAddr>| {
            let len = usize::try_from(range.end.0.saturating_sub(range.start.0)).ok();
            let code = len.and_then(|len| {
                left = left.checked_sub(len)?;
                image.bytes_at(range.start, len)
            });
            code.is_some_and(x86_64::keeps_stack)
        };
        let code = self.module.entries.values().map(|routine| &routine.code);
        code.filter(|code| code.iter().any(|range| range.contains(&self.link)))
            .all(|code| code.iter().all(&mut keeps_stack))
    }

    pub(super) fn symbol(&self) -> Option<(LinkAddr, LinkAddr)> {
        let named = self.module.module.image.functions().before(self.link)?;
        let end = named.start.offset(named.size.cast_signed());
        (self.link < end).then_some((named.start, end))
    }

    /// What the unwind tables describe as one function, of a library without metadata.
    pub(super) fn described(&self) -> Option<(LinkAddr, LinkAddr)> {
        let is_library = self.module.metadata.is_none();
        let extent = is_library.then(|| self.frames().extent(self.link));
        extent.flatten().map(|range| (range.start, range.end))
    }

    pub(super) fn routine(&self) -> Option<(LinkAddr, LinkAddr)> {
        let routines = &self.module.routines;
        let after = routines.partition_point(|range| range.start <= self.link);
        let range = routines.get(after.checked_sub(1)?)?;
        (self.link < range.end).then_some((range.start, range.end))
    }
}

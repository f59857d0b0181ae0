//! What the gates look addresses up in: the ranges of an address space, and the functions and atomic instructions of their modules.

/// Modules whose tables can be loaded at the same time.
pub const MODULES: usize = 1024;

/// The steps of a binary search that a gate makes at most: tables of up to 2^23 entries.
pub const SEARCH_STEPS: usize = 23;

/// One executable range of an address space, in a sorted array; unused entries at the end
/// have `start == u64::MAX`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleRange {
    /// First run-time address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Run-time address that the offsets of the tables count from.
    pub base: u64,
    /// Index into the outer maps of tables.
    pub table: u32,
    /// Entries in the table of functions.
    pub functions: u32,
    /// Entries in the table of atomics.
    pub atomics: u32,
    /// [`ModuleRange::ROUTINES_ONLY`] or 0.
    pub flags: u32,
}

impl ModuleRange {
    /// The module has no metadata: the table of functions holds known `mem*` routines only.
    pub const ROUTINES_ONLY: u32 = 1;
}

/// Executable ranges that one address space can have: 2^`SPACE_STEPS` - 1.
pub const SPACE_RANGES: usize = 1024;
/// The steps of the binary search over them.
pub const SPACE_STEPS: usize = 10;

/// A covered function, in a sorted array.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionEntry {
    /// Offset of the first byte from [`ModuleRange::base`].
    pub start: u32,
    /// Bytes, with [`FunctionEntry::ANALYZED`] in the top bit.
    pub size_flags: u32,
}

impl FunctionEntry {
    /// Its atomic accesses are in the table of atomics.
    pub const ANALYZED: u32 = 1 << 31;
    /// A known `mem*` routine: whether its access counts is a matter of its caller.
    pub const MEM_ROUTINE: u32 = 1 << 30;
    /// The bits of `size_flags` that are the size.
    pub const SIZE_MASK: u32 = Self::MEM_ROUTINE - 1;
}

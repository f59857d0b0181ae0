//! What the rest of the detector asks about instructions, in terms that no architecture owns:
//! memory accesses, the instruction behind a watchpoint hit, and why an answer is missing.

use serde::{Deserialize, Serialize};

use super::AccessKind;

/// One memory access of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemAccess {
    /// Run-time address of the first byte.
    pub address: u64,
    /// How many bytes, in ascending order from `address`.
    pub size: u32,
    /// Load, store, or both.
    pub kind: AccessKind,
    /// A `lock` prefix, or `xchg` with memory: atomic, whatever the metadata says.
    pub locked: bool,
    /// The operand is relative to the fs or gs base, where thread-local storage lives.
    pub thread_local: bool,
    /// Pushed or popped by the instruction (push, pop, call, ret, leave) instead of named by it.
    pub stack_implicit: bool,
}

impl MemAccess {
    /// Whether any byte lies in `len` bytes from `address`. Ranges never wrap around the top of
    /// the address space.
    #[must_use]
    pub const fn overlaps(&self, address: u64, len: u32) -> bool {
        ranges_overlap((self.address, self.size), (address, len))
    }
}

/// Whether two ranges of (first address, length) share a byte.
#[must_use]
pub const fn ranges_overlap(a: (u64, u32), b: (u64, u32)) -> bool {
    a.1 > 0
        && b.1 > 0
        && a.0 <= b.0.saturating_add(b.1 as u64 - 1)
        && b.0 <= a.0.saturating_add(a.1 as u64 - 1)
}

/// The instruction that made an access, found from the program counter after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributed {
    /// Run-time address of the instruction's first byte, prefixes included.
    pub pc: u64,
    /// Length of the instruction in bytes.
    pub len: u32,
    /// The access that met the watch.
    pub access: MemAccess,
    /// False where the instruction overwrote its own address registers (`mov rax, [rax]`), or it
    /// is a string instruction whose hit is reported late: the address is then the watch's, and
    /// all that is known is that the access overlaps the watch.
    pub address_exact: bool,
}

/// Why an instruction's accesses, or the instruction behind an access, cannot be told exactly.
/// Such a hit is counted under the reason's name, never guessed about.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    thiserror::Error,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Undetermined {
    /// The bytes are not an instruction.
    #[error("the bytes at the PC are not a valid instruction")]
    Undecodable,
    /// Decoding forward from the function's start does not arrive at the PC.
    #[error("decoding from the function's start does not arrive at the PC")]
    Desync,
    /// The PC lies outside the code that was given.
    #[error("the PC lies outside the function's code")]
    OutsideCode,
    /// A masked, gathering or scattering vector instruction: mask and index registers are not
    /// among the registers that an event records.
    #[error("the instruction's vector mask or indices are not known")]
    MaskUnknown,
    /// The size depends on processor state (xsave, tile loads).
    #[error("the size of the access depends on processor state")]
    SizeUnknown,
    /// A string comparison that stops early, at a place that depends on the data.
    #[error("the extent of the string instruction depends on the data")]
    DataDependent,
    /// The PC was reached by a jump, call or return, and that instruction may have made the
    /// access.
    #[error("the PC was reached by a control transfer that may have made the access")]
    ControlTransfer,
    /// More than one access fits.
    #[error("more than one access fits the watched bytes")]
    Ambiguous,
    /// The instruction before the PC does not touch the watched bytes.
    #[error("the instruction before the PC does not touch the watched bytes")]
    NoMatch,
}

impl Undetermined {
    /// Every reason, for tables of counters.
    pub const ALL: [Self; 9] = [
        Self::Undecodable,
        Self::Desync,
        Self::OutsideCode,
        Self::MaskUnknown,
        Self::SizeUnknown,
        Self::DataDependent,
        Self::ControlTransfer,
        Self::Ambiguous,
        Self::NoMatch,
    ];

    /// The stable name under which hits are counted; the same as the serialized form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Desync => "desync",
            Self::OutsideCode => "outside-code",
            Self::MaskUnknown => "mask-unknown",
            Self::SizeUnknown => "size-unknown",
            Self::DataDependent => "data-dependent",
            Self::ControlTransfer => "control-transfer",
            Self::Ambiguous => "ambiguous",
            Self::NoMatch => "no-match",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the hand-written names and the serialized ones are the same.
    #[test]
    fn names_are_the_serialized_ones() {
        for reason in Undetermined::ALL {
            let json = serde_json::to_string(&reason).expect("a unit variant serializes");
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
    }

    /// Check overlap at its edges, including the last byte of the address space.
    #[test]
    fn overlap_counts_shared_bytes() {
        assert!(ranges_overlap((8, 4), (11, 1)));
        assert!(!ranges_overlap((8, 4), (12, 4)));
        assert!(!ranges_overlap((8, 4), (4, 4)));
        assert!(ranges_overlap((8, 4), (4, 5)));
        assert!(!ranges_overlap((8, 0), (8, 4)));
        assert!(!ranges_overlap((8, 4), (8, 0)));
        assert!(ranges_overlap((u64::MAX, 1), (u64::MAX - 7, 8)));
        assert!(!ranges_overlap((u64::MAX, 8), (0, 8)));
    }
}

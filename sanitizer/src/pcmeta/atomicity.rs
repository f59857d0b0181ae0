//! What the metadata says about one access: atomic, plain, or not to be known.

use serde::{Deserialize, Serialize};

use crate::insn::AccessKind;

/// Whether an access of the source was atomic, as far as the compiler told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Atomicity {
    /// Marked by the compiler as (part of) an atomic operation.
    Atomic,
    /// Not marked, by a compiler that marks every access of this kind.
    Plain,
    /// Not marked, but the compiler is known to lose this mark, or the code was not analyzed.
    Unknown,
}

/// Whether a compiler of the version may leave 8- and 16-bit atomic loads without their mark.
///
/// Clang 16, the only one to write version 1, does for all of them at -O1 and up, also for the
/// first load of a compare-and-swap loop: its X86FixupBWInsts pass replaces `mov` by `movzx`
/// and copies the debug location, but not the PC sections. Stores and read-modify-write
/// instructions keep theirs. Clang 19 and 22 hand them on (`MIMetadata` in that pass) and lose
/// none; they can be told by the number in the section's name. Clang 17 and 18, which write
/// version 2 without it, have not been checked, and so are not trusted.
///
/// One more loss of clang 16 is left as it is: with -mcx16, the two 8-byte loads before the
/// `cmpxchg16b` loop of a 128-bit atomic store look plain. To doubt them would be to doubt
/// every load of 8 bytes.
pub(super) const fn loses_small_loads(version: u8, section_is_numbered: bool) -> bool {
    version < 2 || !section_is_numbered
}

/// Whether an access is one that [`loses_small_loads`] is about.
pub(super) const fn is_small_load(size: u64, kind: AccessKind) -> bool {
    size <= 2 && matches!(kind, AccessKind::Read)
}

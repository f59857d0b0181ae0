//! Which bytes of what an instruction loads are used, as a fact about the code that follows it.

use serde::{Deserialize, Serialize};

/// The most bytes that one instruction loads from one place (a vector of 512 bits).
pub const MOST_BYTES: u32 = 64;

/// What becomes of the bytes that an instruction loads; bit `i` of a mask is byte `i`.
///
/// Compilers load more than the source asks for where that is cheaper and cannot fault: 32 bits for
/// a field of 16, whole slots for one member of each, a vector for one of its lanes, a copy's tail
/// padding. Bytes in none of the masks are used by nobody, whichever way the code takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByteUse {
    /// Something may depend on them.
    pub used: u64,
    /// Only stored, as a part of what is copied as it is.
    pub copied: u64,
    /// Only in an argument register or on the stack at a call, or in any register where the code goes on elsewhere.
    pub passed: u64,
    /// Only read by instructions that are not understood: it is not known whether anything depends on them.
    pub unclear: u64,
    /// Only in a result register at a return: those of each byte of `rax`, then of `rdx`.
    pub returned: [u64; 16],
    /// Only in `xmm0` or `xmm1` at a return.
    pub returned_in_vectors: u64,
    /// Nothing else is done with any loaded byte than that it is left in a result register. If the function returns
    /// nothing, the use of the load does not show (a volatile access, empty assembly).
    pub only_returned: bool,
    /// The one instruction that stores what is copied stands so many bytes behind the load.
    pub copied_by: Option<u32>,
}

impl ByteUse {
    /// Nothing is known of it: all bytes may be used.
    pub const UNKNOWN: Self = Self {
        used: u64::MAX,
        copied: 0,
        passed: 0,
        unclear: 0,
        returned: [0; 16],
        returned_in_vectors: 0,
        only_returned: false,
        copied_by: None,
    };

    /// What is used by someone, or handed to someone who may use it.
    #[must_use]
    pub fn touched(&self) -> u64 {
        self.used
            | self.copied
            | self.passed
            | self.unclear
            | self.handed_back(u16::MAX)
            | self.returned_in_vectors
    }

    /// The same of some of the bytes.
    #[must_use]
    pub fn of(&self, bytes: u64) -> Self {
        Self {
            used: self.used & bytes,
            copied: self.copied & bytes,
            passed: self.passed & bytes,
            unclear: self.unclear & bytes,
            returned: self.returned.map(|returned| returned & bytes),
            returned_in_vectors: self.returned_in_vectors & bytes,
            only_returned: self.only_returned,
            copied_by: self.copied_by,
        }
    }

    /// What is in those bytes of the result that the function's type has: bit `i` of `result` is
    /// byte `i` of `rax`, from bit 8 on of `rdx`.
    #[must_use]
    pub fn handed_back(&self, result: u16) -> u64 {
        self.returned
            .iter()
            .enumerate()
            .filter(|(byte, _)| result >> byte & 1 != 0)
            .fold(0, |all, (_, bytes)| all | bytes)
    }
}

/// Where an instruction's bytes are copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// The run-time address of the first of them.
    pub address: u64,
    /// The run-time address of the instruction behind the one that stores them: a variable may begin there.
    pub stored: u64,
}

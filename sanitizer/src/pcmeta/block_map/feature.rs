//! What an entry of a block map holds, and what it says of a block, as bits.
//!
//! Source: `BBAddrMap::Features` and `BBEntry::Metadata` in LLVM's `Object/ELFTypes.h`.

use serde::{Deserialize, Serialize};

/// The feature mask of a function's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockMapFeatures(pub u16);

impl BlockMapFeatures {
    /// How often the function was entered, by the profile.
    pub const FUNCTION_ENTRY_COUNT: Self = Self(1 << 0);
    /// How often each block is executed, as a share of the function's entries.
    pub const BLOCK_FREQUENCY: Self = Self(1 << 1);
    /// The successors of each block and how probable they are.
    pub const BRANCH_PROBABILITY: Self = Self(1 << 2);
    /// The function has several ranges of addresses (`-fbasic-block-sections`, hot and cold parts).
    pub const MULTIPLE_RANGES: Self = Self(1 << 3);
    /// Blocks are counted, but not listed.
    pub const OMITTED_ENTRIES: Self = Self(1 << 4);
    /// Where the calls of each block end.
    pub const CALLSITE_ENDS: Self = Self(1 << 5);
    /// A hash of each block, which finds it again in another build.
    pub const BLOCK_HASH: Self = Self(1 << 6);
    /// Frequencies of a profile that was taken after linking.
    pub const POST_LINK_PROFILE: Self = Self(1 << 7);

    /// All of them, with their names and the versions that brought them.
    pub(super) const ALL: [(Self, &'static str, u8); 8] = [
        (Self::FUNCTION_ENTRY_COUNT, "function-entry-count", 2),
        (Self::BLOCK_FREQUENCY, "block-frequency", 2),
        (Self::BRANCH_PROBABILITY, "branch-probability", 2),
        (Self::MULTIPLE_RANGES, "multiple-ranges", 2),
        (Self::OMITTED_ENTRIES, "omitted-entries", 2),
        (Self::CALLSITE_ENDS, "callsite-ends", 3),
        (Self::BLOCK_HASH, "block-hash", 4),
        (Self::POST_LINK_PROFILE, "post-link-profile", 5),
    ];

    /// Whether all of `features` are there.
    #[must_use]
    pub const fn contains(self, features: Self) -> bool {
        self.0 & features.0 == features.0
    }

    /// Whether any of `features` is there.
    #[must_use]
    pub const fn intersects(self, features: Self) -> bool {
        self.0 & features.0 != 0
    }

    /// The names of those that are there.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        (Self::ALL.into_iter())
            .filter(move |&(feature, ..)| self.contains(feature))
            .map(|(_, name, _)| name)
    }
}

impl std::ops::BitOr for BlockMapFeatures {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What is known of a block's end and beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockFlags(pub u8);

impl BlockFlags {
    /// It ends with a return, or with a tail call.
    pub const RETURN: Self = Self(1 << 0);
    /// It ends with a tail call.
    pub const TAIL_CALL: Self = Self(1 << 1);
    /// It is where an exception lands.
    pub const EXCEPTION_PAD: Self = Self(1 << 2);
    /// Execution may go on into the next block.
    pub const FALL_THROUGH: Self = Self(1 << 3);
    /// It ends with a branch through a register.
    pub const INDIRECT_BRANCH: Self = Self(1 << 4);

    /// All of them, with their names.
    const ALL: [(Self, &'static str); 5] = [
        (Self::RETURN, "return"),
        (Self::TAIL_CALL, "tail-call"),
        (Self::EXCEPTION_PAD, "exception-pad"),
        (Self::FALL_THROUGH, "fall-through"),
        (Self::INDIRECT_BRANCH, "indirect-branch"),
    ];
    /// The bits that any known version defines.
    pub(super) const KNOWN: u32 = 0b1_1111;

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The names of those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        (Self::ALL.into_iter())
            .filter(move |&(flag, _)| self.contains(flag))
            .map(|(_, name)| name)
    }
}

//! What debug information says of the bytes at an address: which variables have or point to an object there, and
//! what their types have at these bytes. (DWARF 5, 2.6 and 5.7.)

mod bytes;
mod named;
mod path;
mod variables;

use gimli::{LocationLists, UnitOffset, UnitRef};
use serde::{Deserialize, Serialize};

use super::entries::Entries;
use super::module::StackSnapshot;
use super::reader::Reader;
use crate::insn::Regs;
use bytes::Types;
pub(super) use named::named_at;
pub use named::{Named, Pointee};
pub(super) use path::member_at;
use variables::Variables;

/// A thread at an access, as far as its variables can be found by it.
#[derive(Clone, Copy, Debug)]
pub struct Stopped<'a> {
    /// The run-time address of the instruction.
    pub pc: u64,
    /// Its registers.
    pub regs: &'a Regs,
    /// What was copied of its stack.
    pub stack: &'a StackSnapshot,
}

/// What the types of variables have at some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Some are within an atomic object, of which the language makes no plain copies.
    pub atomic: bool,
    /// Some are of a member that is not.
    pub member: bool,
    /// Some are padding, of an object or of a part of it.
    pub padding: bool,
    /// Some type was not understood.
    pub unknown: bool,
    /// The function is of a language that puts nothing into padding.
    pub keeps_padding: bool,
}

impl Held {
    /// They are padding, whoever looks at them.
    #[must_use]
    pub const fn is_padding(self) -> bool {
        self.padding && !self.atomic && !self.member && !self.unknown
    }

    /// They are members, whoever looks at them.
    #[must_use]
    pub const fn is_member(self) -> bool {
        (self.member || self.atomic) && !self.padding && !self.unknown
    }

    /// They are within an atomic object, whoever looks at them.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        self.atomic && !self.member && !self.unknown
    }

    const NOTHING: Self = Self {
        atomic: false,
        member: false,
        padding: false,
        unknown: false,
        keeps_padding: false,
    };

    const ATOMIC: Self = Self {
        atomic: true,
        ..Self::NOTHING
    };

    const MEMBER: Self = Self {
        member: true,
        ..Self::NOTHING
    };

    const PADDING: Self = Self {
        padding: true,
        ..Self::NOTHING
    };

    const UNKNOWN: Self = Self {
        unknown: true,
        ..Self::NOTHING
    };

    /// What either says.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            atomic: self.atomic || other.atomic,
            member: self.member || other.member,
            padding: self.padding || other.padding,
            unknown: self.unknown || other.unknown,
            keeps_padding: self.keeps_padding || other.keeps_padding,
        }
    }
}

/// What variables have at `len` bytes from the run-time address `address` on: those of `function`, the one at a stop, or
/// where it has none there, global ones. `bias` is what was added to link-time addresses, `locations` are the file's lists
/// of where variables are.
pub(super) fn held_at(
    unit: &UnitRef<'_, Reader>,
    function: Option<UnitOffset<usize>>,
    locations: &LocationLists<Reader>,
    stopped: Stopped<'_>,
    bias: u64,
    (address, len): (u64, u32),
) -> Held {
    let entries = Entries::of(*unit);
    let types = Types::of(&entries);
    let variables = Variables {
        entries: &entries,
        locations,
        stopped,
        bias,
        cfa: None,
    };
    let at = |objects: Option<Vec<(u64, _)>>| {
        let Some(objects) = objects else {
            return Held::UNKNOWN;
        };
        let mut held = Held::NOTHING;
        for (start, ty) in objects {
            let Some(size) = types.size(ty) else {
                continue;
            };
            let Some(offset) = address.checked_sub(start).filter(|&offset| offset < size) else {
                continue;
            };
            for byte in offset..offset.saturating_add(len.into()).min(size) {
                held = held.and(types.byte(ty, byte));
                if held == Held::UNKNOWN {
                    break;
                }
            }
            if size - offset < len.into() {
                held = held.and(Held::UNKNOWN);
            }
        }
        held
    };
    let mut held = at(variables.of_the_function(function));
    if held == Held::NOTHING {
        held = at(variables.of_the_program());
    }
    held.keeps_padding = types.are_of_rust();
    held
}

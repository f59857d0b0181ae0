//! The three kinds of addresses that meet in a detector, as three types: mixing them up is
//! the classic mistake of symbolizers, so the compiler keeps them apart.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl $name {
            /// The address `bytes` further on, wrapping as machine addresses do.
            #[must_use]
            pub const fn offset(self, bytes: i64) -> Self {
                Self(self.0.wrapping_add_signed(bytes))
            }
        }
    };
}

address! {
    /// An address in a running process.
    RuntimeAddr
}
address! {
    /// An address as the linker laid it out (`st_value`, `p_vaddr`, DWARF, PC tables):
    /// the run-time address less the module's load bias.
    LinkAddr
}
address! {
    /// A byte offset in a file (`p_offset`, the offset column of `/proc/PID/maps`).
    FileOffset
}

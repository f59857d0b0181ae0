//! The memory routines of `<string.h>` and `<strings.h>`, by name: which bytes they access is said
//! by their arguments, and all of those they do access.
//!
//! Only such routines are here. Those that look for a byte or for a difference (`memcmp`,
//! `strlen`, `memchr`) load whole vectors, beyond what their caller has asked for: what such a
//! load touches is no access of the caller.

use crate::insn::{AccessKind, Regs};

/// What is appended to a routine's name for a variant of it: for processors, as in
/// `__memmove_avx_unaligned_erms`, and for calls that check the destination's size.
const VARIANTS: [&str; 8] = [
    "_avx",
    "_evex",
    "_sse",
    "_ssse",
    "_erms",
    "_chk",
    "_unaligned",
    "_generic",
];

/// Where a routine's arguments are (System V ABI for x86-64, 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    /// `memcpy(to, from, length)`.
    ToFrom,
    /// `bcopy(from, to, length)`.
    FromTo,
    /// `memset(to, byte, length)`.
    ToByte,
    /// `bzero(to, length)`.
    To,
}

const ROUTINES: [(&str, Arguments); 6] = [
    ("memcpy", Arguments::ToFrom),
    ("memmove", Arguments::ToFrom),
    ("mempcpy", Arguments::ToFrom),
    ("memset", Arguments::ToByte),
    ("bcopy", Arguments::FromTo),
    ("bzero", Arguments::To),
];

/// What a routine does with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    arguments: Arguments,
    /// A fourth argument is the size of the destination; a longer copy ends the program.
    checked: bool,
}

/// Bytes that a routine is about to access, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first one's run-time address.
    pub address: u64,
    /// How many.
    pub length: u64,
    /// Whether they are read or written.
    pub kind: AccessKind,
}

impl Contract {
    /// The contract of a function of this name, if it is one of the routines.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = name.trim_start_matches('_');
        ROUTINES.iter().find_map(|&(routine, arguments)| {
            let rest = name.strip_prefix(routine)?;
            let known = rest.is_empty() || VARIANTS.iter().any(|&v| rest.starts_with(v));
            known.then(|| Self {
                arguments,
                checked: rest.contains("_chk"),
            })
        })
    }

    /// What the routine accesses, given the registers at its first instruction. Empty where it
    /// need not access anything.
    #[must_use]
    pub fn ranges(self, regs: &Regs) -> Vec<Range> {
        let (to, from, length) = match self.arguments {
            Arguments::ToFrom => (regs.rdi, Some(regs.rsi), regs.rdx),
            Arguments::FromTo => (regs.rsi, Some(regs.rdi), regs.rdx),
            Arguments::ToByte => (regs.rdi, None, regs.rdx),
            Arguments::To => (regs.rdi, None, regs.rsi),
        };
        let aborts = self.checked && regs.rcx < length;
        // What is copied onto itself may as well be left alone.
        if length == 0 || aborts || from == Some(to) {
            return Vec::new();
        }
        let range = |address, kind| Range {
            address,
            length,
            kind,
        };
        let mut ranges = vec![range(to, AccessKind::Write)];
        ranges.extend(from.map(|from| range(from, AccessKind::Read)));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that variants of the routines are told from functions that only begin alike, and from
    /// those that read more than they are asked to.
    #[test]
    fn names() {
        for name in [
            "memcpy",
            "__memcpy_chk",
            "__memmove_avx_unaligned_erms",
            "__memset_erms",
            "bzero",
        ] {
            assert!(Contract::of(name).is_some(), "{name}");
        }
        for name in [
            "memcmp",
            "memcpyish",
            "my_memcpy",
            "memsets",
            "wmemset",
            "memset_s",
            "memcpy_s",
            "memchr",
            "strlen",
            "",
        ] {
            assert_eq!(Contract::of(name), None, "{name}");
        }
    }

    /// Check where the arguments are, and that nothing is said of calls that access nothing.
    #[test]
    fn arguments() {
        let regs = Regs {
            rdi: 0x1000,
            rsi: 0x2000,
            rdx: 16,
            rcx: 15,
            ..Regs::default()
        };
        let ranges = |name: &str, regs: &Regs| -> Vec<(u64, u64, bool)> {
            let contract = Contract::of(name).expect("a routine");
            let ranges = contract.ranges(regs);
            ranges
                .iter()
                .map(|range| (range.address, range.length, range.kind.writes()))
                .collect()
        };
        let both = [(0x1000, 16, true), (0x2000, 16, false)];
        assert_eq!(ranges("mempcpy", &regs), both);
        assert_eq!(
            ranges("bcopy", &regs),
            [(0x2000, 16, true), (0x1000, 16, false)]
        );
        assert_eq!(ranges("memset", &regs), [(0x1000, 16, true)]);
        assert_eq!(ranges("bzero", &regs), [(0x1000, 0x2000, true)]);
        assert_eq!(ranges("__memcpy_chk", &regs), []);
        assert_eq!(ranges("__memcpy_chk", &Regs { rcx: 16, ..regs }), both);
        assert_eq!(ranges("memcpy", &Regs { rdx: 0, ..regs }), []);
        assert_eq!(
            ranges(
                "memmove",
                &Regs {
                    rsi: 0x1000,
                    ..regs
                }
            ),
            []
        );
    }
}

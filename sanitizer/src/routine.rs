//! The routines of `<string.h>` and `<strings.h>`, by name: which bytes they access is said by their
//! arguments.
//!
//! What `memcpy` and its kin load and store is exactly what their caller has asked for. Those that
//! look for a byte or for a difference (`strlen`, `memchr`, `strcmp`) load whole vectors, beyond
//! that: what such a load touches is no access of the caller. Only of the first byte of a string is
//! it certain beforehand that it is read.

use crate::insn::{AccessKind, Regs};

/// What is appended to a routine's name for a variant of it: for processors, as in
/// `__memmove_avx_unaligned_erms`, and for calls that check the destination's size.
const VARIANTS: [&str; 9] = [
    "_avx",
    "_evex",
    "_sse",
    "_ssse",
    "_erms",
    "_chk",
    "_unaligned",
    "_generic",
    "_movbe",
];

/// How many bytes are accessed for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// As many as an argument says.
    Argument(usize),
    /// The first one, where an argument does not say that there is none.
    FirstOf(usize),
    /// The first one.
    First,
    /// The last one of as many as an argument says, where that does not say that there is none.
    LastOf(usize),
}

/// What is accessed behind one of a routine's pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touch {
    /// The number of the argument, from 0.
    pointer: usize,
    length: Length,
    kind: AccessKind,
}

const fn reads(pointer: usize, length: Length) -> Touch {
    Touch {
        pointer,
        length,
        kind: AccessKind::Read,
    }
}

const fn writes(pointer: usize, length: Length) -> Touch {
    Touch {
        pointer,
        length,
        kind: AccessKind::Write,
    }
}

/// What a routine does, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deed {
    touches: &'static [Touch],
    /// It loads nothing else.
    loads_exactly: bool,
    /// It stores at all.
    stores: bool,
}

const fn exactly(touches: &'static [Touch]) -> Deed {
    Deed {
        touches,
        loads_exactly: true,
        stores: true,
    }
}

const fn at_least(touches: &'static [Touch], stores: bool) -> Deed {
    Deed {
        touches,
        loads_exactly: false,
        stores,
    }
}

use Length::{Argument, First, FirstOf, LastOf};

/// `strlen(text)`, `strchr(text, byte)`.
const TEXT: Deed = at_least(&[reads(0, First)], false);
/// `strcmp(text, text)`.
const TEXTS: Deed = at_least(&[reads(0, First), reads(1, First)], false);
/// `memcmp(bytes, bytes, length)`, `strncmp(text, text, length)`.
const TWO_OF_LENGTH: Deed = at_least(&[reads(0, FirstOf(2)), reads(1, FirstOf(2))], false);
/// `memcpy(to, from, length)`.
const COPY: Deed = exactly(&[writes(0, Argument(2)), reads(1, Argument(2))]);

/// `strcpy(to, from)`.
const COPY_TEXT: Deed = at_least(&[writes(0, First), reads(1, First)], true);
/// `strncpy(to, from, length)`, which fills up with zeros.
const COPY_AND_FILL: Deed = at_least(&[writes(0, Argument(2)), reads(1, FirstOf(2))], true);

const ROUTINES: [(&str, Deed); 29] = [
    ("memcpy", COPY),
    ("memmove", COPY),
    ("mempcpy", COPY),
    ("memset", exactly(&[writes(0, Argument(2))])),
    // bcopy(from, to, length)
    (
        "bcopy",
        exactly(&[writes(1, Argument(2)), reads(0, Argument(2))]),
    ),
    ("bzero", exactly(&[writes(0, Argument(1))])),
    ("strcpy", COPY_TEXT),
    ("stpcpy", COPY_TEXT),
    ("strncpy", COPY_AND_FILL),
    ("stpncpy", COPY_AND_FILL),
    (
        "strcat",
        at_least(&[reads(0, First), reads(1, First)], true),
    ),
    (
        "strncat",
        at_least(&[reads(0, First), reads(1, FirstOf(2))], true),
    ),
    ("strlen", TEXT),
    ("strnlen", at_least(&[reads(0, FirstOf(1))], false)),
    ("strchr", TEXT),
    ("strrchr", TEXT),
    ("strchrnul", TEXT),
    ("rawmemchr", TEXT),
    ("memchr", at_least(&[reads(0, FirstOf(2))], false)),
    ("memrchr", at_least(&[reads(0, LastOf(2))], false)),
    // memccpy(to, from, byte, length)
    (
        "memccpy",
        at_least(&[writes(0, FirstOf(3)), reads(1, FirstOf(3))], true),
    ),
    ("strcmp", TEXTS),
    ("strncmp", TWO_OF_LENGTH),
    ("strcasecmp", TEXTS),
    ("strncasecmp", TWO_OF_LENGTH),
    // Which read what a locale says, too.
    ("strcasecmp_l", TEXTS),
    ("strncasecmp_l", TWO_OF_LENGTH),
    ("memcmp", TWO_OF_LENGTH),
    ("bcmp", TWO_OF_LENGTH),
];

/// What a routine does with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    deed: Deed,
    /// A fourth argument is the size of the destination; a longer copy ends the program.
    checked: bool,
}

/// Bytes that a routine is about to access, all of them. It may access others as well.
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
        ROUTINES.iter().find_map(|&(routine, deed)| {
            let rest = name.strip_prefix(routine)?;
            let known = rest.is_empty() || VARIANTS.iter().any(|&v| rest.starts_with(v));
            known.then(|| Self {
                deed,
                checked: rest.contains("_chk"),
            })
        })
    }

    /// Whether all that the routine loads are bytes that its caller wants to be read.
    #[must_use]
    pub const fn loads_exactly(self) -> bool {
        self.deed.loads_exactly
    }

    /// Whether the routine stores anything.
    #[must_use]
    pub const fn stores(self) -> bool {
        self.deed.stores
    }

    /// The registers that point to what the routine accesses, by their numbers in instructions.
    pub fn pointers(self) -> impl Iterator<Item = u8> {
        // rdi, rsi, rdx: System V ABI for x86-64, 3.2.3.
        const ARGUMENTS: [u8; 3] = [7, 6, 2];
        let touches = self.deed.touches.iter();
        touches.filter_map(|touch| ARGUMENTS.get(touch.pointer).copied())
    }

    /// What the routine accesses for certain, given the registers at its first instruction. Empty
    /// where it need not access anything.
    #[must_use]
    pub fn ranges(self, regs: &Regs) -> Vec<Range> {
        // System V ABI for x86-64, 3.2.3.
        let arguments = [regs.rdi, regs.rsi, regs.rdx, regs.rcx];
        let argument = |number: usize| arguments.get(number).copied().unwrap_or_default();
        let range = |touch: &Touch| {
            let (skipped, length) = match touch.length {
                Argument(number) => (0, argument(number)),
                FirstOf(number) => (0, argument(number).min(1)),
                First => (0, 1),
                LastOf(number) => (argument(number).saturating_sub(1), argument(number).min(1)),
            };
            Range {
                address: argument(touch.pointer).wrapping_add(skipped),
                length,
                kind: touch.kind,
            }
        };
        let ranges: Vec<Range> = self.deed.touches.iter().map(range).collect();
        let aborts = self.checked && ranges.iter().any(|range| regs.rcx < range.length);
        // What is copied onto itself, or compared with itself, may as well be left alone.
        let to_itself = match *ranges.as_slice() {
            [first, second] => first.address == second.address,
            _ => false,
        };
        if aborts || to_itself || ranges.iter().any(|range| range.length == 0) {
            return Vec::new();
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address, length, and whether it is written, of what the routine of this name accesses.
    fn ranges(name: &str, regs: &Regs) -> Vec<(u64, u64, bool)> {
        let contract = Contract::of(name).expect("a routine");
        let ranges = contract.ranges(regs);
        ranges
            .iter()
            .map(|range| (range.address, range.length, range.kind.writes()))
            .collect()
    }

    /// Check that variants of the routines are told from functions that only begin alike.
    #[test]
    fn names() {
        for name in [
            "memcpy",
            "__memcpy_chk",
            "__memmove_avx_unaligned_erms",
            "__memset_erms",
            "bzero",
            "__strlen_avx2",
            "__strncpy_chk",
            "strchrnul",
            "__strcasecmp_avx2",
            "__strncasecmp_l_avx",
            "__memcmp_evex_movbe",
        ] {
            assert!(Contract::of(name).is_some(), "{name}");
        }
        for name in [
            "memcpyish",
            "my_memcpy",
            "memsets",
            "wmemset",
            "memset_s",
            "memcpy_s",
            "strlcpy",
            "strstr",
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

    /// Check that of strings no more is said than is certain.
    #[test]
    fn strings() {
        let regs = Regs {
            rdi: 0x1000,
            rsi: 0x2000,
            rdx: 3,
            rcx: 2,
            ..Regs::default()
        };
        let ranges = |name: &str| {
            assert!(
                !Contract::of(name).is_some_and(Contract::loads_exactly),
                "{name}"
            );
            ranges(name, &regs)
        };
        assert_eq!(ranges("strlen"), [(0x1000, 1, false)]);
        assert_eq!(ranges("strcpy"), [(0x1000, 1, true), (0x2000, 1, false)]);
        assert_eq!(ranges("strncpy"), [(0x1000, 3, true), (0x2000, 1, false)]);
        assert_eq!(ranges("__strncpy_chk"), []);
        assert_eq!(ranges("memcmp"), [(0x1000, 1, false), (0x2000, 1, false)]);
        assert_eq!(ranges("strcat"), [(0x1000, 1, false), (0x2000, 1, false)]);
        assert_eq!(ranges("strncasecmp"), ranges("strncmp"));
        assert_eq!(ranges("memrchr"), [(0x1002, 1, false)]);
        assert_eq!(ranges("memccpy"), [(0x1000, 1, true), (0x2000, 1, false)]);
        let none = Regs { rcx: 0, ..regs };
        assert!(Contract::of("memccpy").is_some_and(|known| known.ranges(&none).is_empty()));
        let same = Regs {
            rsi: 0x1000,
            ..regs
        };
        assert!(Contract::of("strcasecmp").is_some_and(|known| known.ranges(&same).is_empty()));
        assert!(Contract::of("strcat").is_some_and(Contract::stores));
        assert!(!Contract::of("strcmp").is_some_and(Contract::stores));
    }
}

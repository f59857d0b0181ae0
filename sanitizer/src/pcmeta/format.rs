//! The layouts of the sections and how their names tell them apart.
//!
//! Source: LLVM's `SanitizerBinaryMetadata.cpp` (names, versions, features) and
//! `AsmPrinter::emitPCSections` (offsets, compression of the constants).

use std::fmt;

use crate::image::Encoding;

/// Prefix of the sections with one entry per covered function.
pub(super) const COVERED: &str = "sanmd_covered";
/// Prefix of the sections with one entry per atomic instruction.
pub(super) const ATOMICS: &str = "sanmd_atomics";

/// The bits of the version number that say "offsets are as wide as a pointer".
const VERSION_POINTER_SIZED: u64 = 1 << 16;

/// How the entries of a section are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Format {
    /// 1: numbers of four bytes (clang 16). 2: numbers in ULEB128 (clang 17 and later).
    pub version: u8,
    /// Whether code offsets are as wide as a pointer (`-mcmodel=medium` and `large`) instead of four bytes.
    pub pointer_sized: bool,
}

impl Format {
    /// The layouts that a name without a version may hide. Clang 16 to 18 wrote it for all of
    /// them, and the linker concatenates what different compilers left under one name.
    pub(super) const UNVERSIONED: [Self; 4] = [
        Self::new(1, false),
        Self::new(2, false),
        Self::new(1, true),
        Self::new(2, true),
    ];

    pub(super) const fn new(version: u8, pointer_sized: bool) -> Self {
        Self {
            version,
            pointer_sized,
        }
    }

    pub(super) const fn offset_size(self, encoding: Encoding) -> usize {
        if self.pointer_sized {
            encoding.address_size()
        } else {
            4
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.version)?;
        if self.pointer_sized {
            f.write_str(", 64-bit offsets")?;
        }
        Ok(())
    }
}

/// What the entries of a section describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SectionKind {
    /// Functions that the compiler wrote metadata for.
    Covered,
    /// Instructions that carry out an atomic operation.
    Atomics,
}

/// What a section's name says of its content.
pub(super) enum Named {
    /// Something else.
    Other,
    /// Metadata.
    Metadata {
        /// What its entries describe.
        kind: SectionKind,
        /// The layouts that they may have, the likeliest first.
        formats: Vec<Format>,
        /// Whether the name has the version.
        is_numbered: bool,
    },
    /// Metadata of a version that is not known.
    Unknown(u64),
}

/// Whether a section of this name has metadata, of whatever version.
#[must_use]
pub fn is_metadata(name: &str) -> bool {
    name.starts_with(COVERED) || name.starts_with(ATOMICS)
}

pub(super) fn of_name(name: &str) -> Named {
    let (kind, suffix) = if let Some(suffix) = name.strip_prefix(COVERED) {
        (SectionKind::Covered, suffix)
    } else if let Some(suffix) = name.strip_prefix(ATOMICS) {
        (SectionKind::Atomics, suffix)
    } else {
        return Named::Other;
    };
    if suffix.is_empty() {
        let mut formats = Format::UNVERSIONED.to_vec();
        if kind == SectionKind::Atomics {
            // Their entries are an offset alone, the same in both versions.
            formats.retain(|format| format.version == 1);
        }
        return Named::Metadata {
            kind,
            formats,
            is_numbered: false,
        };
    }
    let Ok(number) = suffix.parse::<u64>() else {
        return Named::Other;
    };
    let pointer_sized = number & VERSION_POINTER_SIZED != 0;
    let version = match number & !VERSION_POINTER_SIZED {
        1 => 1,
        2 => 2,
        _ => return Named::Unknown(number),
    };
    // The name goes by the code model that the module asks for, the width by the one that its code was
    // made with: `llc -code-model=large` and linking with -flto make them differ.
    let formats = [pointer_sized, !pointer_sized].map(|wide| Format::new(version, wide));
    Named::Metadata {
        kind,
        formats: formats.to_vec(),
        is_numbered: true,
    }
}

/// What the compiler recorded about a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(pub u8);

impl Features {
    /// Atomic operations are in the atomics table (`kSanitizerBinaryMetadataAtomicsBit`).
    pub const ATOMICS: Self = Self(1 << 0);
    /// Use-after-return can be checked (`kSanitizerBinaryMetadataUARBit`).
    pub const USE_AFTER_RETURN: Self = Self(1 << 1);
    /// The entry has the size of the stack arguments
    /// (`kSanitizerBinaryMetadataUARHasSizeBit`, version 2).
    pub const STACK_ARGS_SIZE: Self = Self(1 << 2);

    /// All features that any known version defines.
    pub(super) const KNOWN: u64 = 0b111;

    /// Whether all of `features` are there.
    #[must_use]
    pub const fn contains(self, features: Self) -> bool {
        self.0 & features.0 == features.0
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (feature, name) in [
            (Self::ATOMICS, "atomics"),
            (Self::USE_AFTER_RETURN, "uar"),
            (Self::STACK_ARGS_SIZE, "stack-args"),
        ] {
            if self.contains(feature) {
                write!(f, "{separator}{name}")?;
                separator = ",";
            }
        }
        if separator.is_empty() {
            f.write_str("none")?;
        }
        Ok(())
    }
}

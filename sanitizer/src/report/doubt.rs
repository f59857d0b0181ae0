//! What is still not known of a race that stands, as its report says it.

use std::fmt;

use super::model::Role;

/// What is still not known of a race that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The shared bytes of the read are in a register at a call or return, and may be beyond the value's type.
    BeyondType,
    /// The shared bytes are copied with others, and may be padding of what the source copies.
    Padding,
    /// What becomes of the shared bytes of a wider read is not known.
    Unclear,
    /// The instruction may be an atomic access and a plain one that were merged.
    Merged,
    /// The access may be atomic: the compiler may have lost its mark.
    Mark,
}

/// What is said of doubts in a report; `sizes` are the bytes of each access, first that of the stalled side.
pub fn notes_of(doubts: [Option<Doubt>; 2], sizes: [u32; 2]) -> impl Iterator<Item = String> {
    let roles = [Role::Stalled, Role::Racing];
    let of_side = doubts.into_iter().zip(roles.into_iter().zip(sizes));
    of_side.filter_map(|(doubt, (role, size))| Some(doubt?.note(role.name(), size)))
}

/// To what numbers of 8 and 16 bits are widened where they are loaded.
const WIDENED: u32 = 4;

/// A vector's bytes, at least: loops over single members load those.
const VECTOR: u32 = 16;

impl Doubt {
    /// The option of LLVM that forbids it, where one does for an access of so many bytes.
    const fn option(self, size: u32) -> Option<&'static str> {
        match self {
            Self::BeyondType | Self::Unclear if size == WIDENED => {
                Some("-x86-promote-anyext-load=0")
            }
            Self::Unclear if size >= VECTOR => Some("-enable-interleaved-mem-accesses=0"),
            Self::Merged => Some("-enable-tail-merge=0"),
            Self::BeyondType | Self::Unclear | Self::Padding | Self::Mark => None,
        }
    }

    /// What is said in a report of a side that accesses so many bytes.
    #[must_use]
    pub fn note(self, role: &str, size: u32) -> String {
        let advice = self.option(size).map_or_else(String::new, |option| {
            let built = match self {
                Self::Merged => " If it was built so already, the access is most likely plain.",
                _ => "",
            };
            format!(" Build with -mllvm {option} (rustc: -C llvm-args={option}) to rule that out.{built}")
        });
        format!("the {role} {self}.{advice}")
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeyondType => {
                "read may be wider than the source's: the shared bytes are only handed over in a register, which \
                 may be wider than the value"
            }
            Self::Padding => {
                "read copies the shared bytes with others: in the source they may be padding of what is copied"
            }
            Self::Unclear => {
                "read may be wider than the source's: it is not known whether the code uses the shared bytes"
            }
            Self::Merged => {
                "access may be an atomic one and a plain one that the compiler has merged: no line of the source \
                 says which it is"
            }
            Self::Mark => {
                "access may be atomic in the source: the compiler is known to lose the mark of such accesses. The \
                 other one is plain"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a flag is named only where it changes what the compiler makes.
    #[test]
    fn flags() {
        const WIDENED: &str = "-x86-promote-anyext-load=0";
        const GAPS: &str = "-enable-interleaved-mem-accesses=0";
        const MERGED: &str = "-enable-tail-merge=0";
        for (doubt, size, expected) in [
            (Doubt::BeyondType, 4, Some(WIDENED)),
            (Doubt::BeyondType, 8, None),
            (Doubt::BeyondType, 16, None),
            (Doubt::Unclear, 4, Some(WIDENED)),
            (Doubt::Unclear, 8, None),
            (Doubt::Unclear, 16, Some(GAPS)),
            (Doubt::Unclear, 64, Some(GAPS)),
            (Doubt::Merged, 1, Some(MERGED)),
            (Doubt::Merged, 8, Some(MERGED)),
            (Doubt::Padding, 4, None),
            (Doubt::Padding, 16, None),
            (Doubt::Mark, 2, None),
        ] {
            let note = doubt.note("stalled", size);
            let named = [WIDENED, GAPS, MERGED]
                .into_iter()
                .filter(|flag| note.contains(flag))
                .collect::<Vec<_>>();
            assert_eq!(named, Vec::from_iter(expected), "{doubt:?} of {size}");
        }
    }
}

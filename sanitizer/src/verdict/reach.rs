//! Whether the bytes that two accesses share are bytes that a load is for. Compilers load more than the source asks
//! for; what another thread does to the rest is no race.

use super::access::{Access, Analyzed};
use super::bytes::{intersection, range};
use super::reason::Reason;
use crate::insn::{AccessKind, ByteUse};

/// What becomes of the bytes that a load shares with the other access: None where it is known to use one of them.
///
/// # Errors
/// [`Reason::BytesUnused`] where it uses none, [`Reason::OverlapUncertain`] where it cannot be told which it shares.
pub(super) fn doubtful(
    read: &Access,
    other: &Access,
    watch: (u64, u32),
) -> Result<Option<ByteUse>, Reason> {
    if read.kind != AccessKind::Read || matches!(read.analyzed, Analyzed::ForCaller { .. }) {
        return Ok(None);
    }
    let whole = mask(0, read.size.into());
    let uses = read.bytes;
    if whole & !uses.used == 0 {
        return Ok(None);
    }
    let Some((shared, certain)) = shared_bytes(read, other, watch) else {
        return Ok(None);
    };
    if !certain {
        let touched = uses.touched() & shared;
        return if touched == 0 {
            Err(Reason::OverlapUncertain)
        } else if read.address_exact && uses.used & shared == shared {
            Ok(None)
        } else {
            Ok(Some(ByteUse {
                unclear: touched,
                ..ByteUse::default()
            }))
        };
    }
    if uses.used & shared != 0 {
        return Ok(None);
    }
    if uses.touched() & shared == 0 {
        return Err(Reason::BytesUnused);
    }
    Ok(Some(uses.of(shared)))
}

/// Which bytes of a load the other access shares, and whether it is certain that they are these and no others. Where
/// an address is not known, accesses are taken to be aligned, as they are as a rule.
fn shared_bytes(read: &Access, other: &Access, watch: (u64, u32)) -> Option<(u64, bool)> {
    let size = u64::from(read.size);
    if !read.address_exact {
        if read.size <= other.size {
            return None;
        }
        let (from, len) = if other.address_exact {
            range(other)
        } else {
            watch
        };
        let within = from % size.max(1);
        return Some((mask(within, u64::from(len).min(size - within)), false));
    }
    // The other one covers the watch, if it is as wide.
    let (theirs, certain) = if other.address_exact {
        (range(other), true)
    } else {
        (watch, other.size >= watch.1)
    };
    let (address, len) = intersection(range(read), theirs)?;
    Some((mask(address - read.address, len.into()), certain))
}

/// The bits of `size` bytes from `first` on.
const fn mask(first: u64, size: u64) -> u64 {
    if first >= 64 || size == 0 {
        return 0;
    }
    let ones = if size >= 64 {
        u64::MAX
    } else {
        (1 << size) - 1
    };
    ones << first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::ReadUse;
    use crate::pcmeta::Atomicity;

    const WATCH: (u64, u32) = (0x1000, 8);

    fn load(address: u64, size: u32, bytes: ByteUse) -> Access {
        Access {
            pc: 0x40_0000,
            address,
            size,
            kind: AccessKind::Read,
            atomicity: Atomicity::Plain,
            analyzed: Analyzed::Yes,
            read_use: ReadUse::Proven,
            bytes,
            address_exact: true,
        }
    }

    fn write(address: u64, size: u32) -> Access {
        Access {
            kind: AccessKind::Write,
            ..load(address, size, ByteUse::UNKNOWN)
        }
    }

    fn used(used: u64) -> ByteUse {
        ByteUse {
            used,
            ..ByteUse::default()
        }
    }

    /// Check that only bytes that nobody uses are left out, one by one.
    #[test]
    fn one_byte_after_another() {
        for uses in 0..16u64 {
            for byte in 0..4u64 {
                let read = load(0x1000, 4, used(uses));
                let found = doubtful(&read, &write(0x1000 + byte, 1), WATCH);
                let expected = if uses >> byte & 1 != 0 {
                    Ok(None)
                } else {
                    Err(Reason::BytesUnused)
                };
                assert_eq!(found, expected, "{uses:#x} {byte}");
            }
        }
    }

    /// Check that nothing is said of stores, routines and what is used in whole.
    #[test]
    fn no_doubt() {
        let other = write(0x1002, 2);
        let store = Access {
            kind: AccessKind::Write,
            ..load(0x1000, 4, ByteUse::default())
        };
        let routine = Access {
            analyzed: Analyzed::ForCaller {
                caller_analyzed: true,
            },
            ..load(0x1000, 4, ByteUse::default())
        };
        for read in [
            store,
            routine,
            load(0x1000, 4, used(0xf)),
            load(0x1000, 4, ByteUse::UNKNOWN),
        ] {
            assert_eq!(doubtful(&read, &other, WATCH), Ok(None));
        }
    }

    /// Check that it must be known which bytes are shared, where not all are used.
    #[test]
    fn inexact() {
        let read = Access {
            address_exact: false,
            ..load(0x1000, 4, used(0b11))
        };
        assert_eq!(
            doubtful(&read, &write(0x1002, 2), (0x1002, 2)),
            Err(Reason::OverlapUncertain)
        );
        assert_eq!(doubtful(&read, &write(0x1000, 4), (0x1000, 4)), Ok(None));
        // By their alignment it is the lower half.
        let found = doubtful(&read, &write(0x2000, 2), (0x2000, 2));
        assert_eq!(
            found.map(|found| found.map(|bytes| bytes.unclear)),
            Ok(Some(0b11))
        );
        let other = Access {
            address_exact: false,
            ..write(0x1002, 2)
        };
        let read = load(0x1000, 4, used(0b11));
        assert_eq!(
            doubtful(&read, &other, (0x1002, 2)),
            Err(Reason::BytesUnused)
        );
        assert_eq!(doubtful(&read, &other, (0x1000, 2)), Ok(None));
        let found = doubtful(&read, &other, (0x1000, 4));
        assert_eq!(
            found.map(|found| found.map(|bytes| bytes.unclear)),
            Ok(Some(0b11))
        );
    }

    /// Check that copies and results are doubted, and say what they are.
    #[test]
    fn handed_on() {
        let copied = ByteUse {
            copied: 0xff,
            ..ByteUse::default()
        };
        let read = load(0x1000, 8, copied);
        for (byte, size, expected) in [(0, 1, 1), (0, 4, 0xf), (5, 1, 1 << 5)] {
            let found = doubtful(&read, &write(0x1000 + byte, size), WATCH);
            assert_eq!(
                found.map(|found| found.map(|bytes| bytes.copied)),
                Ok(Some(expected))
            );
        }
        let mut returned = used(1);
        returned.returned[..4].copy_from_slice(&[0, 2, 4, 8]);
        let read = load(0x1000, 4, returned);
        assert_eq!(doubtful(&read, &write(0x1000, 1), WATCH), Ok(None));
        let found = doubtful(&read, &write(0x1002, 2), WATCH)
            .expect("it is returned")
            .expect("the type decides");
        assert_eq!(found.handed_back(0b0011), 0);
        assert_eq!(found.handed_back(0b1111), 0b1100);
    }
}

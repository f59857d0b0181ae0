//! The bytes of accesses, as ranges.

use super::access::Access;
use crate::insn::ranges_overlap;

/// The bytes of an access: the first one's address, and how many.
pub(super) const fn range(access: &Access) -> (u64, u32) {
    (access.address, access.size)
}

/// The bytes that two ranges have in common.
pub(super) fn intersection(a: (u64, u32), b: (u64, u32)) -> Option<(u64, u32)> {
    if !ranges_overlap(a, b) {
        return None;
    }
    let first = a.0.max(b.0);
    // Both reach beyond `first`, so what is left of each is at least one byte.
    let left = |(address, size): (u64, u32)| u64::from(size) - (first - address);
    let size = left(a).min(left(b));
    Some((first, u32::try_from(size).ok()?))
}

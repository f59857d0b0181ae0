//! A set of instruction addresses, packed: two bytes an address and an index of at most two.

/// Sorted addresses, as offsets from a base, of which only the low bits are stored: the high
/// bits are the number of the bucket that an address is in.
#[derive(Default)]
pub(super) struct PcSet {
    low: Vec<u16>,
    /// For each bucket, how many addresses come before it; one more at the end.
    buckets: Vec<u32>,
    shift: u32,
}

impl PcSet {
    pub(super) fn new(mut pcs: Vec<u32>) -> Self {
        if !pcs.is_sorted() {
            pcs.sort_unstable();
        }
        pcs.dedup();
        let span = pcs.last().copied().unwrap_or_default();
        // At most one bucket for two addresses, but none larger than the low bits can tell
        // apart: sparse addresses cost four bytes for each 64 KiB of code.
        let mut shift = 0;
        while shift < u16::BITS && (span >> shift) as usize + 2 > pcs.len() / 2 {
            shift += 1;
        }
        let mut buckets = Vec::with_capacity((span >> shift) as usize + 2);
        for (index, &pc) in (0u32..).zip(&pcs) {
            while buckets.len() <= (pc >> shift) as usize {
                buckets.push(index);
            }
        }
        buckets.push(pcs.len() as u32);
        let low = pcs.iter().map(|&pc| low_bits(pc, shift)).collect();
        Self {
            low,
            buckets,
            shift,
        }
    }

    #[inline]
    pub(super) fn contains(&self, pc: u32) -> bool {
        let bucket = (pc >> self.shift) as usize;
        let Some([start, end, ..]) = self.buckets.get(bucket..) else {
            return false;
        };
        let low = low_bits(pc, self.shift);
        match self.low.get(*start as usize..*end as usize) {
            Some(bucket) if bucket.len() <= 32 => bucket.contains(&low),
            Some(bucket) => bucket.binary_search(&low).is_ok(),
            None => false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.low.len()
    }

    /// All addresses, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        (0u32..)
            .zip(self.buckets.windows(2))
            .flat_map(move |(bucket, window)| {
                let range = match window {
                    &[start, end] => start as usize..end as usize,
                    _ => 0..0,
                };
                let low = self.low.get(range).unwrap_or_default();
                low.iter()
                    .map(move |&low| (bucket << self.shift) | u32::from(low))
            })
    }

    pub(super) fn memory_size(&self) -> usize {
        self.low.capacity() * size_of::<u16>() + self.buckets.capacity() * size_of::<u32>()
    }
}

fn low_bits(pc: u32, shift: u32) -> u16 {
    (pc & ((1 << shift) - 1)) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn holds_what_was_put_in_and_nothing_else(
            pcs in prop::collection::vec(prop_oneof![0u32..2000, any::<u32>()], 0..500),
            asked in prop::collection::vec(prop_oneof![0u32..2000, any::<u32>()], 0..500),
        ) {
            // The largest spans make a table of 65,536 buckets, the most that is possible.
            let set = PcSet::new(pcs.clone());
            let expected: BTreeSet<u32> = pcs.iter().copied().collect();
            prop_assert!(set.iter().eq(expected.iter().copied()));
            prop_assert_eq!(set.len(), expected.len());
            for pc in asked.into_iter().chain(pcs).flat_map(|pc| [pc.wrapping_sub(1), pc, pc.wrapping_add(1)]) {
                prop_assert_eq!(set.contains(pc), expected.contains(&pc));
            }
        }

        #[test]
        fn takes_at_most_4_bytes_an_address(count in 100u32..5000, gap in 4u32..1000) {
            let set = PcSet::new((0..count).map(|i| i * gap).collect());
            prop_assert!(set.memory_size() <= 4 * count as usize, "{} bytes", set.memory_size());
        }
    }
}

//! The covered functions of an image, packed: 8 bytes a function and an index of at most 4.

use super::format::Features;

/// One covered function, as offsets from the table's base, in eight bytes that sort by address:
/// 32 bits of start, 24 of size, 4 of features, 3 of version, 1 for `loses_small_loads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Packed(u64);

/// The size field of functions that are larger than it can tell.
const LARGE: u32 = (1 << 24) - 1;
const FEATURES: u8 = (1 << 4) - 1;
const VERSION: u8 = (1 << 3) - 1;

impl Packed {
    fn new(function: Unpacked) -> Self {
        let tag = (function.features.0 & FEATURES) << 4
            | (function.version & VERSION) << 1
            | u8::from(function.loses_small_loads);
        Self(
            u64::from(function.start) << 32
                | u64::from(function.size.min(LARGE)) << 8
                | u64::from(tag),
        )
    }

    fn start(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn size(self) -> u32 {
        (self.0 as u32) >> 8
    }

    fn unpack(self) -> Unpacked {
        let tag = self.0 as u8;
        Unpacked {
            start: self.start(),
            size: self.size(),
            features: Features(tag >> 4),
            version: (tag >> 1) & VERSION,
            loses_small_loads: tag & 1 != 0,
        }
    }
}

/// One covered function, as offsets from the table's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unpacked {
    pub(super) start: u32,
    pub(super) size: u32,
    pub(super) features: Features,
    pub(super) version: u8,
    pub(super) loses_small_loads: bool,
}

/// Functions in any order, on their way into a table.
#[derive(Clone, Default)]
pub(super) struct Functions {
    packed: Vec<Packed>,
    /// Start and size of the functions that are too large for [`Packed`].
    large: Vec<(u32, u32)>,
}

impl Functions {
    pub(super) fn reserve(&mut self, more: usize) {
        self.packed.reserve(more);
    }

    #[inline]
    pub(super) fn push(&mut self, function: Unpacked) {
        if function.size >= LARGE {
            self.large.push((function.start, function.size));
        }
        self.packed.push(Packed::new(function));
    }

    pub(super) fn len(&self) -> usize {
        self.packed.len()
    }

    /// Forgets all but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        for packed in self.packed.drain(len.min(self.packed.len())..) {
            if packed.size() == LARGE {
                self.large.pop();
            }
        }
    }
}

/// Sorted functions without overlaps, found by a table of buckets of equal code size.
#[derive(Default)]
pub(super) struct FunctionTable {
    functions: Vec<Packed>,
    /// Start and size of the functions that are too large for [`Packed`], sorted.
    large: Vec<(u32, u32)>,
    /// For each bucket, how many functions start before it; one more at the end.
    buckets: Vec<u32>,
    shift: u32,
}

/// How many functions a query looks at in any case: the first ones of its bucket. A fixed
/// number costs no mispredicted branches.
const WINDOW: usize = 4;

impl FunctionTable {
    pub(super) fn new(functions: Functions) -> Self {
        let Functions {
            packed: mut functions,
            mut large,
        } = functions;
        if !functions.is_sorted() {
            functions.sort_unstable();
        }
        large.sort_unstable();
        merge(&mut functions, &mut large);
        functions.shrink_to_fit();
        let span = functions.last().map_or(0, |last| last.start());
        // At most one bucket a function.
        let mut shift = 0;
        while shift < u32::BITS - 1 && (span >> shift) as usize + 2 > functions.len() {
            shift += 1;
        }
        let mut buckets = Vec::with_capacity((span >> shift) as usize + 2);
        for (index, function) in (0u32..).zip(&functions) {
            while buckets.len() <= (function.start() >> shift) as usize {
                buckets.push(index);
            }
        }
        buckets.push(functions.len() as u32);
        Self {
            functions,
            large,
            buckets,
            shift,
        }
    }

    #[inline]
    pub(super) fn at(&self, offset: u32) -> Option<Unpacked> {
        let bucket = (offset >> self.shift) as usize;
        // Beyond the last bucket only the last function can reach.
        let first = self.buckets.get(bucket).or(self.buckets.last()).copied()? as usize;
        let tail = self.functions.get(first..)?;
        let before = match tail.first_chunk::<WINDOW>() {
            Some(window) => window
                .iter()
                .map(|f| usize::from(f.start() <= offset))
                .sum(),
            None => tail.iter().take_while(|f| f.start() <= offset).count(),
        };
        let before = if before < WINDOW {
            before
        } else {
            // Few buckets hold more; those may hold very many.
            let end = self
                .buckets
                .get(bucket + 1)
                .map_or(tail.len(), |&end| end as usize - first);
            tail.get(..end)?.partition_point(|f| f.start() <= offset)
        };
        let found = self.functions.get((first + before).checked_sub(1)?)?;
        let found = self.unpack(*found);
        (offset - found.start < found.size).then_some(found)
    }

    /// Whether no function has any of these bytes.
    pub(super) fn is_free(&self, start: u32, size: u32) -> bool {
        let Some(last) = start.checked_add(size).and_then(|end| end.checked_sub(1)) else {
            return false;
        };
        let after = self
            .functions
            .partition_point(|function| function.start() <= last);
        let nearest = after
            .checked_sub(1)
            .and_then(|index| self.functions.get(index));
        nearest.is_none_or(|&nearest| {
            let nearest = self.unpack(nearest);
            nearest.start < start && start - nearest.start >= nearest.size
        })
    }

    #[inline]
    fn unpack(&self, packed: Packed) -> Unpacked {
        let mut function = packed.unpack();
        if function.size == LARGE {
            function.size = large_size(&self.large, function.start);
        }
        function
    }

    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    /// All functions, sorted.
    /// The function of this index, in the order of addresses.
    pub(super) fn nth(&self, index: usize) -> Option<Unpacked> {
        self.functions.get(index).map(|&packed| self.unpack(packed))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Unpacked> {
        self.functions.iter().map(|&packed| self.unpack(packed))
    }

    pub(super) fn memory_size(&self) -> usize {
        self.functions.capacity() * size_of::<Packed>()
            + self.buckets.capacity() * size_of::<u32>()
            + self.large.capacity() * size_of::<(u32, u32)>()
    }
}

/// The size of the large function that starts here, the largest if there are several.
fn large_size(large: &[(u32, u32)], start: u32) -> u32 {
    let after = large.partition_point(|&(other, _)| other <= start);
    match after.checked_sub(1).and_then(|index| large.get(index)) {
        Some(&(found, size)) if found == start => size,
        _ => LARGE,
    }
}

/// Leaves one function for each start, and none that reaches into the next.
///
/// Identical functions that a linker folded (ICF) share their start: the fold counts as
/// analyzed only where all of them are, and has the version that is trusted least.
fn merge(functions: &mut Vec<Packed>, large: &mut [(u32, u32)]) {
    functions.dedup_by(|next, kept| {
        if next.start() != kept.start() {
            return false;
        }
        let (other, mut function) = (next.unpack(), kept.unpack());
        function.size = function.size.max(other.size);
        function.features.0 &= other.features.0;
        function.version = function.version.min(other.version);
        function.loses_small_loads |= other.loses_small_loads;
        *kept = Packed::new(function);
        true
    });
    let mut next_start = None;
    for function in functions.iter_mut().rev() {
        if let Some(next_start) = next_start {
            let room = next_start - function.start();
            if function.size() > room {
                let mut clipped = function.unpack();
                clipped.size = room;
                *function = Packed::new(clipped);
            } else if function.size() == LARGE {
                for (_, size) in large
                    .iter_mut()
                    .filter(|(start, _)| *start == function.start())
                {
                    *size = (*size).min(room);
                }
            }
        }
        next_start = Some(function.start());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn function(start: u32, size: u32) -> Unpacked {
        Unpacked {
            start,
            size,
            features: Features::ATOMICS,
            version: 2,
            loses_small_loads: false,
        }
    }

    fn table(functions: impl IntoIterator<Item = Unpacked>) -> FunctionTable {
        let mut all = Functions::default();
        functions
            .into_iter()
            .for_each(|function| all.push(function));
        FunctionTable::new(all)
    }

    #[test]
    fn functions_larger_than_the_size_field_keep_their_size() {
        for size in [LARGE - 1, LARGE, LARGE + 1, 0x4000_0000] {
            let table = table([
                function(0x10, 16),
                function(0x100, size),
                function(0x8000_0000, 1),
            ]);
            assert_eq!(table.at(0x100 + size - 1), Some(function(0x100, size)));
            assert_eq!(table.at(0x100 + size), None);
        }
        let clipped = table([function(0x100, 0x4000_0000), function(0x2000_0000, 1)]);
        assert_eq!(
            clipped.at(0x1fff_ffff).map(|f| f.size),
            Some(0x2000_0000 - 0x100)
        );
        assert_eq!(clipped.at(0x2000_0001), None);
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace() {
        let mut functions = Functions::default();
        functions.push(function(0x10, LARGE));
        let before = functions.clone();
        functions.push(function(0x20, LARGE + 5));
        functions.push(function(0x30, 5));
        functions.truncate(1);
        assert_eq!(
            (functions.packed, functions.large),
            (before.packed, before.large)
        );
    }

    #[test]
    fn folded_functions_are_trusted_as_the_least_of_them() {
        let mut other = function(0x10, 8);
        other.features = Features::USE_AFTER_RETURN;
        other.version = 1;
        other.loses_small_loads = true;
        let table = table([function(0x10, 8), other, function(0x10, 8)]);
        let found = table.at(0x17).unwrap();
        assert!(!found.features.contains(Features::ATOMICS));
        assert_eq!(found.version, 1);
        assert!(found.loses_small_loads);
        assert_eq!(table.len(), 1);
        assert_eq!(table.at(0x18), None);
        assert_eq!(table.at(0x0f), None);
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            functions in prop::collection::vec((0u32..3000, 1u32..200), 0..300),
            far in any::<bool>(),
        ) {
            // A lone function far away makes the buckets uneven.
            let mut functions = functions;
            if far {
                functions.push((0xffff_0000, 0xfff));
            }
            let all: Vec<Unpacked> =
                functions.iter().map(|&(at, size)| function(at, size)).collect();
            let table = table(all.clone());
            prop_assert!(table.iter().is_sorted_by_key(|f| f.start));
            for offset in (0..3300).chain([0xfffe_ffff, 0xffff_0000, 0xffff_0ffe, 0xffff_0fff, u32::MAX]) {
                let start = all.iter().map(|f| f.start).filter(|&start| start <= offset).max();
                let expected = start.filter(|&start| {
                    all.iter().any(|f| f.start == start && offset - f.start < f.size)
                });
                prop_assert_eq!(table.at(offset).map(|f| f.start), expected);
            }
        }

        #[test]
        fn takes_at_most_16_bytes_a_function(count in 100u32..2000, gap in 16u32..100_000) {
            let table = table((0..count).map(|i| function(i * gap, 16)));
            prop_assert!(table.memory_size() <= 16 * count as usize, "{}", table.memory_size());
        }
    }
}

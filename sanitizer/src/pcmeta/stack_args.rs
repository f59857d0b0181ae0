//! The sizes of the arguments that functions take on the stack: few do, so they are kept apart from
//! the table of functions.

/// Starts of functions, as offsets from the table's base, and the sizes in bytes.
#[derive(Default)]
pub(super) struct StackArgs(Vec<(u32, u32)>);

impl StackArgs {
    pub(super) fn push(&mut self, start: u32, size: u64) {
        // The field of version 1 has 32 bits, and no compiler has more to tell.
        self.0
            .push((start, u32::try_from(size).unwrap_or(u32::MAX)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets all but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Of functions that were folded into one, the largest size is kept: too much is safe.
    pub(super) fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = next.1;
            }
            is_same
        });
        self.0.shrink_to_fit();
        self
    }

    pub(super) fn of(&self, start: u32) -> Option<u32> {
        let found = self.0.binary_search_by_key(&start, |&(start, _)| start);
        Some(self.0.get(found.ok()?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_folded_functions_is_kept() {
        let mut sizes = StackArgs::default();
        for (start, size) in [(8, 3), (4, 1), (8, 9), (8, 2), (1, 1 << 40)] {
            sizes.push(start, size);
        }
        sizes.push(2, 2);
        sizes.truncate(5);
        let sizes = sizes.sorted();
        assert_eq!(sizes.of(8), Some(9));
        assert_eq!(
            (sizes.of(4), sizes.of(1), sizes.of(2)),
            (Some(1), Some(u32::MAX), None)
        );
    }
}

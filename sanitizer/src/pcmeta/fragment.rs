//! Parts of functions that stand elsewhere.

use std::ops::Range;

use crate::addr::LinkAddr;

use super::function_table::{FunctionTable, Functions, Unpacked};
use super::{Function, Metadata};

/// A part of a covered function that the compiler has laid out apart from the first, which alone its metadata tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its code.
    pub range: Range<LinkAddr>,
    /// Where the function begins.
    pub of: LinkAddr,
}

impl Metadata {
    /// Takes it for known that these are parts of covered functions: from now on each is listed like a function, with a
    /// start of its own and what is recorded of the function. Those of functions that are not
    /// covered, and those that reach into what is, are left out; one of several functions counts as the least of them.
    pub fn add_fragments(&mut self, fragments: &[Fragment]) {
        let mut functions = Functions::default();
        functions.reserve(self.functions.len() + fragments.len());
        self.functions
            .iter()
            .for_each(|function| functions.push(function));
        for Fragment { range, of } in fragments {
            let whole = self.offset(*of).and_then(|of| self.functions.at(of));
            let (Some(whole), Some(start)) = (whole, self.offset(range.start)) else {
                continue;
            };
            let size = range
                .end
                .0
                .checked_sub(range.start.0)
                .filter(|&size| size > 0);
            let Some(size) = size.and_then(|size| u32::try_from(size).ok()) else {
                continue;
            };
            let is_free = self.functions.is_free(start, size);
            if is_free && self.address(whole.start) == *of {
                functions.push(Unpacked {
                    start,
                    size,
                    ..whole
                });
                self.fragments.push((start, whole.start));
            }
        }
        self.fragments.sort_unstable();
        self.functions = FunctionTable::new(functions);
    }

    /// The start of the function of which a part begins here that was laid out apart from it.
    #[must_use]
    pub fn whole_of(&self, start: LinkAddr) -> Option<LinkAddr> {
        let start = self.offset(start)?;
        let at = self.fragments.partition_point(|&(other, _)| other < start);
        let &(found, whole) = self.fragments.get(at)?;
        (found == start).then(|| self.address(whole))
    }

    /// Whether one of [`Metadata::functions`] is a part of another.
    #[must_use]
    pub fn is_part(&self, function: &Function) -> bool {
        self.whole_of(function.start).is_some()
    }

    /// How many of [`Metadata::functions`] are parts of others.
    #[must_use]
    pub fn fragment_count(&self) -> usize {
        let fragments = self.fragments.chunk_by(|first, second| first.0 == second.0);
        fragments.count()
    }
}

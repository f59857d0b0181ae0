//! Sets of code that belong together, joined pair by pair.

/// Numbers from 0 up, in sets.
pub(super) struct Components(Vec<usize>);

impl Components {
    /// Each number by itself.
    pub(super) fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    /// A number that all of the set have in common.
    pub(super) fn of(&mut self, number: usize) -> usize {
        let mut at = number;
        while let Some(&next) = self.0.get(at)
            && next != at
        {
            // Halves the way for the next time.
            let behind = self.0.get(next).copied().unwrap_or(next);
            if let Some(slot) = self.0.get_mut(at) {
                *slot = behind;
            }
            at = behind;
        }
        at
    }

    /// Makes one set of two; whether they were two.
    pub(super) fn join(&mut self, first: usize, second: usize) -> bool {
        let (first, second) = (self.of(first), self.of(second));
        if let Some(slot) = self.0.get_mut(second) {
            *slot = first;
        }
        first != second
    }

    /// The sets of more than one number.
    pub(super) fn all(&mut self) -> Vec<Vec<usize>> {
        let mut numbers: Vec<(usize, usize)> = (0..self.0.len())
            .map(|number| (self.of(number), number))
            .collect();
        numbers.sort_unstable();
        numbers
            .chunk_by(|first, second| first.0 == second.0)
            .filter(|set| set.len() > 1)
            .map(|set| set.iter().map(|&(_, number)| number).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that sets are what their pairs connect.
    #[test]
    fn sets_are_what_pairs_connect() {
        let mut components = Components::new(7);
        assert!(components.join(1, 2) && components.join(3, 4) && components.join(4, 1));
        assert!(!components.join(2, 3));
        assert!(components.join(6, 0));
        let mut all = components.all();
        all.sort();
        assert_eq!(all, [vec![0, 6], vec![1, 2, 3, 4]]);
    }
}

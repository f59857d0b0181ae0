//! A choice among many by weight, where weights change all the time: a Fenwick tree of their sums.

use std::collections::HashMap;

/// Weights by index.
#[derive(Debug, Default)]
pub struct Weights {
    each: Vec<f64>,
    /// At `i`: the sum of the weights of `i & (i + 1)` to `i`.
    sums: Vec<f64>,
}

impl Weights {
    /// Adds one; its index.
    pub fn push(&mut self, weight: f64) -> usize {
        let index = self.each.len();
        self.each.push(weight);
        let mut sum = weight;
        // The ranges that end right before this one, and belong to its own.
        let mut span = 1;
        while index & span != 0 {
            sum += self.sums.get(index - span).copied().unwrap_or(0.0);
            span <<= 1;
        }
        self.sums.push(sum);
        index
    }

    /// Changes one; an index that was never given out is none.
    pub fn set(&mut self, index: usize, weight: f64) {
        let Some(old) = self.each.get_mut(index) else {
            return;
        };
        let change = weight - *old;
        *old = weight;
        let mut at = index;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum += change;
            at |= at + 1;
        }
    }

    /// An index for a number from 0 to 1, each as likely as its weight; `None` where all weigh nothing.
    #[must_use]
    pub fn choose(&self, number: f64) -> Option<usize> {
        let mut point = number * self.sum();
        let mut below = 0;
        let mut span = self.each.len().next_power_of_two();
        while span > 0 {
            let next = below + span;
            if let Some(&sum) = self.sums.get(next - 1)
                && sum <= point
            {
                point -= sum;
                below = next;
            }
            span /= 2;
        }
        // Where rounding leads beyond the end, or to one of no weight, the next one before is as good.
        let found = below.min(self.each.len().checked_sub(1)?);
        (0..=found)
            .rev()
            .find(|&index| self.each.get(index).is_some_and(|&weight| weight > 0.0))
    }

    fn sum(&self) -> f64 {
        let (mut sum, mut end) = (0.0, self.each.len());
        while end > 0 {
            sum += self.sums.get(end - 1).copied().unwrap_or(0.0);
            end &= end - 1;
        }
        sum
    }
}

/// Access sites with a weight each.
#[derive(Debug, Default)]
pub struct WeightedSites {
    sites: Vec<u64>,
    weights: Weights,
    indices: HashMap<u64, usize>,
}

impl WeightedSites {
    /// Adds one, unless it is there already.
    pub fn add(&mut self, site: u64, weight: f64) {
        self.indices.entry(site).or_insert_with(|| {
            self.sites.push(site);
            self.weights.push(weight)
        });
    }

    /// What a site weighs from now on, if it is one of these; whether it is.
    pub fn weigh(&mut self, site: u64, weight: f64) -> bool {
        let index = self.indices.get(&site);
        if let Some(&index) = index {
            self.weights.set(index, weight);
        }
        index.is_some()
    }

    /// Puts another one into the place of the one that was added so many after the first.
    pub fn replace(&mut self, index: usize, site: u64, weight: f64) {
        if let Some(place) = self.sites.get_mut(index) {
            self.indices.remove(place);
            *place = site;
            self.indices.insert(site, index);
            self.weights.set(index, weight);
        }
    }

    /// One of the sites, by a number from 0 to 1.
    #[must_use]
    pub fn choose(&self, number: f64) -> Option<u64> {
        self.sites.get(self.weights.choose(number)?).copied()
    }

    /// What all weigh together.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weights.sum()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[u64] {
        &self.sites
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each index is chosen as often as it weighs, also after changes.
    #[test]
    fn choices_follow_weights() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in [1, 2, 3, 7, 8, 9, 100] {
            let mut weights = Weights::default();
            for index in 0..count {
                assert_eq!(weights.push(random.f64()), index);
            }
            for index in 0..count {
                weights.set(index, (index % 3) as f64);
            }
            let total: f64 = (0..count).map(|index| (index % 3) as f64).sum();
            assert!((weights.sum() - total).abs() < 1e-9);
            let mut chosen = vec![0.0; count];
            const TRIES: usize = 100_000;
            for _ in 0..TRIES {
                match weights.choose(random.f64()) {
                    Some(index) => chosen[index] += total / TRIES as f64,
                    None => assert!(total == 0.0),
                }
            }
            for (index, share) in chosen.iter().enumerate() {
                let expected = if total > 0.0 { (index % 3) as f64 } else { 0.0 };
                assert!(
                    (share - expected).abs() < 0.25,
                    "{index} of {count}: {share}"
                );
                assert!(expected > 0.0 || *share == 0.0);
            }
        }
    }

    /// Check that nothing is chosen where there is nothing.
    #[test]
    fn nothing_is_chosen_of_nothing() {
        let mut weights = Weights::default();
        assert_eq!(weights.choose(0.5), None);
        weights.push(1.0);
        weights.set(0, 0.0);
        weights.set(7, 1.0);
        assert_eq!(weights.choose(0.5), None);
        assert_eq!(weights.push(1.0), 1);
        assert_eq!(weights.choose(1.0), Some(1));
    }
}

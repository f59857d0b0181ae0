//! What is known of a function.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many things are counted at a site (`Counts` of hunt/plan/counts.rs, in the order of its fields).
pub const COUNTED: usize = 16;
/// What is kept of a function at most, as [`KnownFunction::seen_in`] has it, bytes.
pub const MOST_OF_FUNCTION: usize = 64 << 10;
/// Of anything: a second of every second for some hundred years.
const MOST: f64 = 1e10;
/// Races of a function that are kept.
const MOST_RACED: usize = 64;
/// Of so much less nothing is kept: one look, seven half-lives ago.
const LEAST: f32 = 0.01;

/// What is counted at the sites of a function: by how far they are from its beginning, bytes.
pub type Sites = Vec<(u32, Parts)>;
/// What of all that is counted is not 0.
pub type Parts = Vec<(u8, f32)>;

/// What is known of a function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownFunction {
    /// How far it is from the beginning of its module, bytes.
    pub at: u64,
    /// What tells its code from other code ([`fingerprint`](crate::insn::x86_64::fingerprint)).
    pub fingerprint: u64,
    /// What was seen at its sites.
    pub sites: Sites,
    /// Races of them that were told.
    pub raced: Vec<Raced>,
}

/// A race of a site with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Raced {
    /// How far the site is from its function's beginning, bytes.
    pub at: u32,
    /// The fingerprint of the other one's function, and how far the other one is from its beginning.
    pub with: (u64, u32),
}

impl KnownFunction {
    /// Adds what else is known of the function to so much of what was known before.
    pub fn add(&mut self, left: f64, other: &Self) {
        self.merge(other, left, |one, other| one + other);
    }

    /// Has of each count the larger one: where what one of them has counted may be a part of what the other one has, nothing counts twice.
    pub fn keep_larger(&mut self, other: &Self) {
        self.merge(other, 1.0, f64::max);
    }

    /// Lets nothing be counted more often than this.
    pub fn end_at(&mut self, most: f32) {
        for (_, parts) in &mut self.sites {
            for (_, value) in parts {
                *value = value.min(most);
            }
        }
    }

    fn merge(&mut self, other: &Self, left: f64, both: impl Fn(f64, f64) -> f64) {
        let mut all = BTreeMap::<u32, [f64; COUNTED]>::new();
        for (part, seen) in [(left, &self.sites), (1.0, &other.sites)] {
            for (at, parts) in seen {
                let more = values(parts).unwrap_or_default();
                let sum = all.entry(*at).or_default();
                for (sum, more) in sum.iter_mut().zip(more) {
                    *sum = both(*sum, more * part);
                }
            }
        }
        let kept = all.into_iter().map(|(at, sum)| (at, parts(&sum)));
        self.sites = kept
            .filter(|(_, parts)| parts.iter().any(|(_, value)| *value >= LEAST))
            .collect();
        for raced in &other.raced {
            if self.raced.len() < MOST_RACED && !self.raced.contains(raced) {
                self.raced.push(*raced);
            }
        }
    }

    /// Whether nothing was seen but that it is there.
    #[must_use]
    pub const fn is_untried(&self) -> bool {
        self.sites.is_empty() && self.raced.is_empty()
    }

    /// Whether it can be at all: what was written elsewhere need not.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        i64::try_from(self.at).is_ok()
            && self.raced.len() <= MOST_RACED
            && (self.sites.iter()).all(|(_, parts)| !parts.is_empty() && values(parts).is_some())
    }

    /// Whether each site, and of each what is counted, is told of once, in order: what is told twice would count twice.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        let is_in_order = |parts: &Parts| parts.is_sorted_by(|one, next| one.0 < next.0);
        self.sites.is_sorted_by(|one, next| one.0 < next.0)
            && self.sites.iter().all(|(_, parts)| is_in_order(parts))
    }

    /// What was seen in it, as it is kept.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn seen_in(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(&(&self.sites, &self.raced))
    }

    /// The function there, in which that was seen; nothing where it is none.
    #[must_use]
    pub fn of(at: u64, fingerprint: u64, seen_in: &[u8]) -> Option<Self> {
        let (seen, rest) = postcard::take_from_bytes(seen_in).ok()?;
        let (sites, raced) = seen;
        rest.is_empty().then_some(Self {
            at,
            fingerprint,
            sites,
            raced,
        })
    }
}

/// All that is counted, by what of it is kept; nothing where it can be none.
#[must_use]
pub fn values(parts: &Parts) -> Option<[f64; COUNTED]> {
    let mut values = [0.0; COUNTED];
    for &(index, value) in parts {
        if value < 0.0 {
            return None;
        }
        *values.get_mut(usize::from(index))? += f64::from(value);
    }
    let is_sound = |value: &f64| (0.0..MOST).contains(value);
    values.iter().all(is_sound).then_some(values)
}

/// What is kept of all that is counted.
#[must_use]
pub fn parts(values: &[f64; COUNTED]) -> Parts {
    let all = (0..).zip(values);
    all.filter(|(_, value)| **value > 0.0)
        .map(|(index, value)| (index, *value as f32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(sites: Sites) -> KnownFunction {
        KnownFunction {
            sites,
            ..KnownFunction::default()
        }
    }

    /// Check that what is added counts in full, what was there before in part, and what is next to nothing not at all.
    #[test]
    fn counts_add_up() {
        let mut one = function(vec![(4, vec![(0, 8.0)]), (9, vec![(1, 0.01)])]);
        let other = function(vec![(4, vec![(0, 1.0), (2, 2.0)]), (6, vec![(3, 1.0)])]);
        one.add(0.5, &other);
        let sum = vec![(4, vec![(0, 5.0), (2, 2.0)]), (6, vec![(3, 1.0)])];
        assert_eq!(one.sites, sum);
        // A part that can be none counts for nothing.
        one.add(1.0, &function(vec![(4, vec![(0, f32::NAN)])]));
        assert_eq!(one.sites, sum);
    }

    /// Check that what is a part of the other counts once, whichever comes first, and that races of both are kept, as many as there may be.
    #[test]
    fn parts_count_once() {
        let raced = |at| Raced { at, with: (1, 2) };
        let mut own = function(vec![(4, vec![(0, 3.0), (2, 2.0)])]);
        own.raced = vec![raced(4)];
        let mut all = function(vec![(4, vec![(0, 9.0), (2, 1.0)]), (6, vec![(3, 1.0)])]);
        all.raced = vec![raced(4), raced(6)];
        let expected = vec![(4, vec![(0, 9.0), (2, 2.0)]), (6, vec![(3, 1.0)])];
        for (one, other) in [(&own, &all), (&all, &own)] {
            let mut both = one.clone();
            both.keep_larger(other);
            both.keep_larger(other);
            assert_eq!(both.sites, expected);
            assert_eq!(both.raced, [raced(4), raced(6)]);
        }
        own.raced.extend((10..100).map(raced));
        assert!(!own.is_sound());
        all.raced.clear();
        all.keep_larger(&own);
        assert!(all.raced.len() == MOST_RACED && all.is_sound());
    }

    /// Check that what is told twice is found, whatever it is, and that sums never are so.
    #[test]
    fn what_is_told_twice_is_found() {
        for twice in [
            vec![(4, vec![(0, 1.0), (0, 1.0)])],
            vec![(4, vec![(2, 1.0), (1, 1.0)])],
            vec![(4, vec![(0, 1.0)]), (4, vec![(1, 1.0)])],
            vec![(6, vec![(0, 1.0)]), (4, vec![(0, 1.0)])],
        ] {
            let mut told = function(twice);
            assert!(!told.is_in_order() && told.is_sound());
            told.add(1.0, &KnownFunction::default());
            assert!(told.is_in_order());
        }
    }

    /// Check that functions are kept as they are, that those which can be none are found, and that counts have an end.
    #[test]
    fn what_can_be_none_is_found() {
        let mut whole = function(vec![(4, vec![(0, 3.0), (15, 1e9)])]);
        whole.at = 16;
        whole.fingerprint = u64::MAX;
        let seen_in = whole.seen_in().unwrap();
        assert_eq!(KnownFunction::of(16, u64::MAX, &seen_in).unwrap(), whole);
        assert!(whole.is_sound());
        assert!(KnownFunction::of(16, 1, &seen_in[1..]).is_none());
        assert!(KnownFunction::of(16, 1, &[&*seen_in, &[0]].concat()).is_none());
        for wrong in [(16, 1.0), (0, -1.0), (0, f32::NAN), (0, 1e11)] {
            assert!(!function(vec![(4, vec![wrong])]).is_sound(), "{wrong:?}");
        }
        assert!(!function(vec![(4, Vec::new())]).is_sound());
        let far = KnownFunction {
            at: u64::MAX,
            ..KnownFunction::default()
        };
        assert!(!far.is_sound());
        whole.end_at(2.0);
        assert_eq!(whole.sites, [(4, vec![(0, 2.0), (15, 2.0)])]);
    }
}

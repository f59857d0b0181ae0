//! Addresses that two threads were seen to use, by the sites at which they may be at hand again.

use std::collections::BTreeMap;

use super::{catalogue::Number, counts::Counts, event::AddressId, prior};

/// Addresses that are remembered of a site: those that were seen last.
const MOST: usize = 8;

/// An address that may be at hand at a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The address.
    pub address: AddressId,
    /// What was seen of threads that were about to access it there, or were waited for.
    pub counts: Counts,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Addresses {
    of_site: BTreeMap<Number, Vec<Known>>,
    /// What was seen of all that were waited for at a site.
    all: BTreeMap<Number, Counts>,
}

impl Addresses {
    /// What is known of a site, the address that was seen last behind all others.
    #[must_use]
    pub fn of(&self, site: Number) -> &[Known] {
        self.of_site.get(&site).map_or(&[], Vec::as_slice)
    }

    /// One of them, if it is known.
    #[must_use]
    pub fn find(&self, site: Number, address: AddressId) -> Option<&Known> {
        let mut known = self.of(site).iter();
        known.find(|known| known.address == address)
    }

    /// What was seen of all that were waited for at a site.
    #[must_use]
    pub fn all(&self, now: f64, site: Number) -> Counts {
        let all = self.all.get(&site).copied().unwrap_or_default();
        all.at(now, prior::HALF_LIFE)
    }

    /// Two threads use an address that may be at hand at a site.
    pub fn add(&mut self, site: Number, address: AddressId) {
        let known = self.of_site.entry(site).or_default();
        let place = known.iter().position(|known| known.address == address);
        let one = match place {
            Some(place) => known.remove(place),
            None => Known {
                address,
                counts: Counts::default(),
            },
        };
        if known.len() >= MOST {
            known.remove(0);
        }
        known.push(one);
    }

    /// Adds what was seen of one that is known.
    pub fn count(&mut self, now: f64, site: Number, address: AddressId, seen: Counts) {
        let all = self.all.entry(site).or_default();
        all.add_at(now, prior::HALF_LIFE, seen);
        let known = self.of_site.get_mut(&site).into_iter().flatten();
        for known in known.filter(|known| known.address == address) {
            known.counts.add_at(now, prior::HALF_LIFE, seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the addresses that were seen last are remembered, each once, with what was seen of them.
    #[test]
    fn the_last_ones_are_remembered() {
        let mut addresses = Addresses::default();
        let seen = Counts {
            came: 1.0,
            ..Counts::default()
        };
        for number in 0..3 * MOST as u64 {
            addresses.add(1, AddressId(number));
            addresses.add(1, AddressId(0));
            addresses.count(0.0, 1, AddressId(0), seen);
        }
        let known: Vec<_> = addresses
            .of(1)
            .iter()
            .map(|known| known.address.0)
            .collect();
        let last = (2 * MOST as u64 + 1..3 * MOST as u64).chain([0]);
        assert_eq!(known, last.collect::<Vec<_>>());
        let first = addresses.find(1, AddressId(0)).expect("it is known");
        assert_eq!(first.counts.came, 3.0 * MOST as f64);
        assert!(addresses.find(2, AddressId(0)).is_none());
    }
}

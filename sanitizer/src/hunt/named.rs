//! Access sites whose code names the variable: where one of them writes it, two threads at any two of them make a
//! conflict, whatever else the program does. Of the many sites of a large program these are few.

use std::collections::HashMap;

use super::weights::Weights;

/// Sites of an address that nobody is known to write, kept until somebody does.
const MOST_READERS: usize = 16;
/// Addresses remembered; of more than these nothing is learned.
const MEMORY: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub struct Named {
    addresses: HashMap<u64, Variable>,
    /// Those of variables that are written.
    sites: Vec<u64>,
    weights: Weights,
    indices: HashMap<u64, usize>,
}

#[derive(Debug)]
enum Variable {
    /// By these sites.
    Read(Vec<u64>),
    Written,
}

impl Named {
    /// A site names an address.
    pub fn add(&mut self, address: u64, site: u64, writes: bool) {
        if self.addresses.len() >= MEMORY {
            return;
        }
        let variable = self.addresses.entry(address);
        let variable = variable.or_insert(Variable::Read(Vec::new()));
        match variable {
            Variable::Written => self.take(site),
            Variable::Read(readers) if writes => {
                let readers = std::mem::take(readers);
                *variable = Variable::Written;
                for site in readers.into_iter().chain([site]) {
                    self.take(site);
                }
            }
            Variable::Read(readers) => {
                if readers.len() < MOST_READERS {
                    readers.push(site);
                }
            }
        }
    }

    fn take(&mut self, site: u64) {
        let Self {
            sites,
            weights,
            indices,
            ..
        } = self;
        indices.entry(site).or_insert_with(|| {
            sites.push(site);
            weights.push(1.0)
        });
    }

    /// One of the sites, by a number from 0 to 1.
    #[must_use]
    pub fn choose(&self, number: f64) -> Option<u64> {
        self.sites.get(self.weights.choose(number)?).copied()
    }

    /// What a site weighs from now on, if it is one of these.
    pub fn weigh(&mut self, site: u64, weight: f64) {
        if let Some(&index) = self.indices.get(&site) {
            self.weights.set(index, weight);
        }
    }

    /// All of them.
    #[must_use]
    pub fn sites(&self) -> Vec<u64> {
        self.sites.clone()
    }

    /// Forgets all.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the sites of a variable count from the first writer on, readers seen before included, and
    /// that variables which are only read do not.
    #[test]
    fn only_what_is_written_counts() {
        let mut named = Named::default();
        named.add(0x1000, 1, false);
        named.add(0x2000, 2, false);
        assert_eq!(named.choose(0.5), None);
        named.add(0x1000, 3, true);
        named.add(0x1000, 4, false);
        named.add(0x1000, 4, false);
        assert_eq!(named.sites(), [1, 3, 4]);
        named.weigh(1, 0.0);
        named.weigh(2, 9.0);
        named.weigh(3, 0.0);
        assert_eq!(named.choose(0.1), Some(4));
        named.forget();
        assert_eq!(named.choose(0.5), None);
    }
}

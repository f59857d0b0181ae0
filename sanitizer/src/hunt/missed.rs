//! Access sites to which no thread came in time: they are executed rarely, or never. To wait there longer costs
//! nothing but the time, which there is while the budget has nothing left for stalls.

use super::weights::WeightedSites;

/// Sites remembered; of more than these, old ones make room.
const MEMORY: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Missed {
    sites: WeightedSites,
    /// The next one that makes room.
    oldest: usize,
}

impl Missed {
    /// Nobody came to a site of this weight.
    pub fn add(&mut self, site: u64, weight: f64) {
        if self.sites.weigh(site, weight) {
            return;
        }
        if self.sites.all().len() < MEMORY {
            return self.sites.add(site, weight);
        }
        self.sites.replace(self.oldest, site, weight);
        self.oldest = (self.oldest + 1) % MEMORY;
    }

    /// Somebody did.
    pub fn remove(&mut self, site: u64) {
        self.sites.weigh(site, 0.0);
    }

    /// One of the sites, by a number from 0 to 1.
    #[must_use]
    pub fn choose(&self, number: f64) -> Option<u64> {
        self.sites.choose(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that sites are chosen by weight, until somebody comes there, and again when nobody does.
    #[test]
    fn by_weight() {
        let mut missed = Missed::default();
        assert_eq!(missed.choose(0.5), None);
        missed.add(1, 1.0);
        missed.add(2, 3.0);
        missed.add(2, 3.0);
        assert_eq!(missed.choose(0.2), Some(1));
        assert_eq!(missed.choose(0.3), Some(2));
        missed.remove(2);
        missed.remove(3);
        assert_eq!(missed.choose(0.9), Some(1));
        missed.remove(1);
        assert_eq!(missed.choose(0.9), None);
        missed.add(2, 3.0);
        assert_eq!(missed.choose(0.9), Some(2));
    }

    /// Check that there is room for new ones.
    #[test]
    fn the_oldest_make_room() {
        let mut missed = Missed::default();
        for site in 0..3 * MEMORY as u64 {
            missed.add(site, 1.0);
        }
        let newest = 2 * MEMORY as u64..;
        assert_eq!(missed.sites.all().len(), MEMORY);
        assert!((0..100).all(|number| {
            let site = missed.choose(f64::from(number) / 100.0);
            site.is_some_and(|site| newest.contains(&site))
        }));
    }
}

//! The code of a simulated program, as a ledger knows real code: functions with a place and a fingerprint, and sites by how far they are from its beginning.

use std::collections::{BTreeMap, BTreeSet};

use gwp_race::{
    hunt::{
        memory::{counts_of, parts_of},
        plan::{counts::Counts, event::SiteId},
        world::{lease::Known, program::Program},
    },
    learned::{KnownFunction, Raced},
};

/// From the beginning of a function to that of the next one, and from a site to the next one, bytes.
const FUNCTION: u64 = 4096;
const SITE: u32 = 4;
/// The golden ratio: fingerprints of neighbours are far apart.
const RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module.
pub struct Code {
    /// Of each site its function, and how far it is from its beginning.
    sites: Vec<(u64, u32)>,
    /// The first site of each function.
    functions: BTreeMap<u64, usize>,
}

impl Code {
    pub fn of(program: &Program) -> Self {
        let mut functions = BTreeMap::new();
        let sites = program.sites.iter().enumerate().map(|(index, site)| {
            let function = site.facts.function.0;
            let first = *functions.entry(function).or_insert(index);
            (function, (index - first) as u32 * SITE)
        });
        Self {
            sites: sites.collect(),
            functions,
        }
    }

    /// What was seen, and which races were found, function by function.
    pub fn functions(
        &self,
        seen: &BTreeMap<SiteId, Counts>,
        races: &BTreeSet<(usize, usize)>,
    ) -> Vec<KnownFunction> {
        let mut all = BTreeMap::<u64, KnownFunction>::new();
        let mut known = |function: u64, add: &mut dyn FnMut(&mut KnownFunction)| {
            let known = all.entry(function).or_insert_with(|| KnownFunction {
                at: function * FUNCTION,
                fingerprint: fingerprint(function),
                ..KnownFunction::default()
            });
            add(known);
        };
        for (site, counts) in seen {
            let parts = parts_of(*counts);
            if let Some(&(function, offset)) = self.sites.get(site.0 as usize)
                && !parts.is_empty()
            {
                known(function, &mut |known| {
                    known.sites.push((offset, parts.clone()));
                });
            }
        }
        for &(one, other) in races {
            for (site, other) in [(one, other), (other, one)] {
                let (function, offset) = self.sites[site];
                let (with, there) = self.sites[other];
                let raced = Raced {
                    at: offset,
                    with: (fingerprint(with), there),
                };
                known(function, &mut |known| known.raced.push(raced));
            }
        }
        all.into_values().collect()
    }

    /// What such functions tell of the program.
    pub fn known(&self, functions: &[KnownFunction]) -> Known {
        let by_fingerprint: BTreeMap<u64, u64> = (self.functions.keys())
            .map(|function| (fingerprint(*function), *function))
            .collect();
        let site = |function: u64, offset: u32| {
            let first = self.functions.get(&function)?;
            Some(first + (offset / SITE) as usize)
        };
        let mut known = Known::default();
        for function in functions {
            let number = function.at / FUNCTION;
            for (offset, parts) in &function.sites {
                if let (Some(site), Some(counts)) = (site(number, *offset), counts_of(parts)) {
                    known.sites.insert(SiteId(site as u64), counts);
                }
            }
            for raced in &function.raced {
                let with = by_fingerprint.get(&raced.with.0);
                let with = with.and_then(|with| site(*with, raced.with.1));
                if let (Some(one), Some(other)) = (site(number, raced.at), with) {
                    known.races.insert((one.min(other), one.max(other)));
                }
            }
        }
        known
    }
}

fn fingerprint(function: u64) -> u64 {
    (function + 1).wrapping_mul(RATIO)
}

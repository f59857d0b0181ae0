//! What a burst of probes has noted, in the planner's terms: who came to which site, and who met whom.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::hunt::{
    plan::event::{AddressId, Arrivals, Met, Partner, SiteId, What},
    strategy::{Noted, NotedUse},
};

/// Uses of an address that are looked at behind each: where many threads use it, the next other one is near.
const LOOKED_AT: usize = 16;
/// No program has anything below it, as a rule (`vm.mmap_min_addr`).
const LEAST_ADDRESS: u64 = 0x1_0000;
/// Pairs of sites that are told, at most: an event of the log has a bound.
const MOST_MET: usize = 256;

/// All of it. `writes`: whether a site may write.
///
/// Two accesses meet if they are about the same address: that they overlap in part is not seen.
pub(super) fn told(noted: &Noted, writes: impl Fn(u64) -> bool) -> What {
    let mut of_address = BTreeMap::<u64, Vec<NotedUse>>::new();
    // Uses by site: all, and those that have met others.
    let mut uses = HashMap::<u64, (u32, u32)>::new();
    // What nobody can use is of a thread that goes another way, as where a pointer leads nowhere.
    let uses_of_memory = noted
        .uses
        .iter()
        .filter(|used| used.address >= LEAST_ADDRESS);
    for used in uses_of_memory {
        of_address.entry(used.address).or_default().push(*used);
        uses.entry(used.site).or_default().0 += 1;
    }
    let mut met = BTreeMap::<(u64, u64), Met>::new();
    for (address, mut users) in of_address {
        users.sort_by_key(|used| used.at_ns);
        let mut have_met = vec![false; users.len()];
        for (index, first) in users.iter().enumerate() {
            let conflict = |then: &NotedUse| {
                then.tid != first.tid && (writes(first.site) || writes(then.site))
            };
            let behind = users.iter().enumerate().skip(index + 1).take(LOOKED_AT);
            let Some((other, then)) = behind.into_iter().find(|(_, then)| conflict(then)) else {
                continue;
            };
            have_met[index] = true;
            have_met[other] = true;
            let after = Duration::from_nanos(then.at_ns.saturating_sub(first.at_ns));
            let pair = Met {
                first: SiteId(first.site),
                address: AddressId(address),
                then: Partner {
                    site: SiteId(then.site),
                    after,
                },
            };
            let known = met.entry((first.site, then.site)).or_insert(pair);
            if after < known.then.after {
                *known = pair;
            }
        }
        for (used, has_met) in users.iter().zip(have_met) {
            if let Some((_, met)) = uses.get_mut(&used.site) {
                *met += u32::from(has_met);
            }
        }
    }
    let arrivals = noted.arrivals.iter().map(|&(site, count)| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let (noted, met) = uses.get(&site).copied().unwrap_or_default();
        // Of those who come too often only some are noted.
        let part = f64::from(met) / f64::from(noted.max(1));
        Arrivals {
            site: SiteId(site),
            count: count.max(noted),
            met: (f64::from(count.max(noted)) * part).round() as u32,
        }
    });
    What::Profiled {
        lasted: noted.lasted,
        arrivals: arrivals.collect(),
        met: met.into_values().take(MOST_MET).collect(),
        cost_s: noted.cost_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: u64 = 1;
    const WRITES: u64 = 2;
    const OTHER: u64 = 3;

    fn used(site: u64, tid: u32, at_ns: u64, address: u64) -> NotedUse {
        NotedUse {
            site,
            tid,
            at_ns,
            address,
        }
    }

    fn of(arrivals: &[(u64, u64)], uses: &[NotedUse]) -> (Vec<Arrivals>, Vec<Met>) {
        let noted = Noted {
            lasted: Duration::from_millis(2),
            arrivals: arrivals.to_vec(),
            uses: uses.to_vec(),
            cost_s: 1e-3,
        };
        match told(&noted, |site| site == WRITES) {
            What::Profiled { arrivals, met, .. } => (arrivals, met),
            what => panic!("{what:?}"),
        }
    }

    /// Check that two threads meet that use an address, one of them to write, whoever comes first; with the time between, and not a thread with itself, two readers, or those who
    /// use other addresses.
    #[test]
    fn conflicts_are_found() {
        let meets = |uses: &[NotedUse]| {
            let (_, met) = of(&[], uses);
            let pair = |met: &Met| (met.first.0, met.then.site.0, met.then.after.as_nanos());
            met.iter().map(pair).collect::<Vec<_>>()
        };
        let first = used(READS, 7, 100, 0x10_0000);
        assert_eq!(
            meets(&[first, used(WRITES, 8, 350, 0x10_0000)]),
            [(READS, WRITES, 250)]
        );
        assert_eq!(
            meets(&[first, used(WRITES, 8, 40, 0x10_0000)]),
            [(WRITES, READS, 60)]
        );
        assert!(meets(&[first, used(WRITES, 7, 350, 0x10_0000)]).is_empty());
        assert!(meets(&[first, used(OTHER, 8, 350, 0x10_0000)]).is_empty());
        assert!(meets(&[first, used(WRITES, 8, 350, 0x10_0008)]).is_empty());
        let nowhere = [used(READS, 7, 100, 8), used(WRITES, 8, 350, 8)];
        assert!(meets(&nowhere).is_empty());
        // Of several times the shortest; who writes twice does so against himself.
        let again = [
            first,
            used(WRITES, 8, 350, 0x10_0000),
            used(READS, 7, 400, 0x10_0000),
            used(WRITES, 8, 420, 0x10_0000),
        ];
        assert_eq!(meets(&again), [(READS, WRITES, 20), (WRITES, READS, 50)]);
    }

    /// Check that each site is told with how often somebody came and how many of those met others, also where only some were noted, and that one to which nobody came is told, too.
    #[test]
    fn arrivals_are_counted() {
        let uses = [
            used(READS, 7, 100, 0x10_0000),
            used(READS, 7, 200, 0x20_0000),
            used(WRITES, 8, 350, 0x10_0000),
        ];
        let (arrivals, _) = of(&[(READS, 20), (WRITES, 1), (OTHER, 0)], &uses);
        let numbers = arrivals.iter().map(|one| (one.site.0, one.count, one.met));
        let expected = [(READS, 20, 10), (WRITES, 1, 1), (OTHER, 0, 0)];
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
    }
}

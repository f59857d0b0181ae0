//! One lease after the other: what it is worth to remember what was seen in those before.

use super::{
    costs::NESTED,
    families::{self, Family},
    lease::{Known, watch},
    simulation::Hunt,
};

/// How long a lease is, s, and what it may cost: that of a daemon that watches many processes by turns.
const LEASE_S: f64 = 30.0;
const SHARE: f64 = 0.05;
/// No more are simulated: what was not found by then counts as found at their end.
const MOST_LEASES: u32 = 12;

/// How long it takes to the next race that was not found in the first leases, s; `None` where there is none left.
fn next_race(family: Family, seed: u64, remembers: bool) -> Option<f64> {
    /// Leases that give something to remember.
    const FIRST: u32 = 4;
    let program = family(seed);
    let mut ledger = Known::default();
    let mut passed = 0.0;
    let mut known = std::collections::BTreeSet::new();
    for lease in 0..FIRST + MOST_LEASES {
        let hunt = Hunt {
            costs: NESTED,
            share: SHARE,
            length_s: LEASE_S,
            seed: seed * 1000 + u64::from(lease),
            has_probes: false,
        };
        let gains = if remembers && lease >= FIRST {
            watch(&program, &hunt, &ledger)
        } else {
            watch(&program, &hunt, &Known::default())
        };
        ledger.add(&gains.sites);
        for (race, find) in gains.run.races.iter().zip(&gains.run.finds) {
            if known.insert(*race) && lease >= FIRST {
                return Some(passed + find.time_s);
            }
        }
        if known.len() >= program.races() {
            return None;
        }
        if lease >= FIRST {
            passed += LEASE_S;
        }
    }
    Some(passed)
}

/// Check that the next race is found much sooner where what was seen in earlier leases is remembered: in at least twenty pairs of programs.
#[test]
fn memory_pays() {
    const PAIRS: usize = 20;
    const SEEDS: u64 = 6;
    /// Of the time without.
    const WANTED: f64 = 0.7;
    let several = ["server", "by a pointer", "large server", "bursts"];
    let all = families::ALL.into_iter();
    let families: Vec<Family> = all
        .filter(|family| several.contains(&family(1).name))
        .collect();
    assert_eq!(families.len(), several.len());
    let ratios = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (families, ratios) = (&families, &ratios);
            scope.spawn(move || {
                for (number, &family) in families.iter().enumerate() {
                    for seed in (1..=SEEDS).filter(|seed| (seed + number as u64) % 2 == half) {
                        let [with, without] =
                            [true, false].map(|remembers| next_race(family, seed, remembers));
                        if let (Some(with), Some(without)) = (with, without) {
                            println!(
                                "{} {seed}: {with:.1} s, without {without:.1} s",
                                family(seed).name
                            );
                            ratios.lock().unwrap().push(with / without);
                        }
                    }
                }
            });
        }
    });
    let mut ratios = ratios.into_inner().unwrap();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("{} pairs, median ratio {median:.2}", ratios.len());
    assert!(ratios.len() >= PAIRS && median <= WANTED, "{ratios:.2?}");
}

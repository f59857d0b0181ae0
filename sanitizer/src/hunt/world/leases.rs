//! One lease after the other: what it is worth to remember what was seen in those before.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    delivery::hints::HintFile,
    hunt::{
        memory::{KnownFunction, counts_of, parts_of},
        plan::{
            Planner,
            action::{Action, Deed, Then},
            choose::ByWorth,
            counts::Counts,
            event::{Event, MemberId, SiteId, What},
            purse::Purse,
        },
    },
    learned::Module,
};

use super::{
    costs::{NESTED, SAVINGS_S},
    families::{self, Family},
    lease::{Known, watch},
    program::{After, Comes, Order, Program},
    simulation::{Hunt, simulate},
};

/// How long a lease is, s, and what it may cost: that of a daemon that watches many processes by turns.
const LEASE_S: f64 = 30.0;
const SHARE: f64 = 0.05;
/// No more are simulated: what was not found by then counts as found at their end.
const MOST_LEASES: u32 = 12;

/// A lease.
const fn hunt(seed: u64) -> Hunt {
    Hunt {
        costs: NESTED,
        share: SHARE,
        length_s: LEASE_S,
        seed,
        has_probes: false,
    }
}

/// How long it takes to the next race that was not found in the first leases, s; `None` where there is none left.
fn next_race(family: Family, seed: u64, remembers: bool) -> Option<f64> {
    /// Leases that give something to remember.
    const FIRST: u32 = 4;
    let program = family(seed);
    let mut ledger = Known::default();
    let mut passed = 0.0;
    let mut known = std::collections::BTreeSet::new();
    for lease in 0..FIRST + MOST_LEASES {
        let hunt = hunt(seed * 1000 + u64::from(lease));
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

/// The lease of a host, and what is learned in it; when it has found a race, s.
fn first_race(program: &Program, seed: u64, known: &Known) -> (Option<f64>, Vec<(SiteId, Counts)>) {
    let gains = watch(program, &hunt(seed), known);
    let times = gains.run.finds.iter().map(|find| find.time_s);
    (times.min_by(f64::total_cmp), gains.sites)
}

/// What several hosts have learned, as it goes to another one: by functions, summed up, in a file.
fn shared(program: &Program, hosts: Vec<Vec<(SiteId, Counts)>>) -> Known {
    let mut sums = BTreeMap::<u64, KnownFunction>::new();
    for (SiteId(site), counts) in hosts.into_iter().flatten() {
        let function = program.sites[site as usize].facts.function.0;
        let more = KnownFunction {
            sites: vec![(site as u32, parts_of(counts))],
            ..KnownFunction::default()
        };
        let sum = sums.entry(function).or_default();
        sum.at = function;
        sum.add(1.0, &more);
    }
    let functions = sums.into_values();
    let file = HintFile {
        module: Module {
            name: "app".to_owned(),
            build: "aa".to_owned(),
        },
        functions: functions
            .filter(|function| !function.is_untried())
            .collect(),
    };
    let file = HintFile::decode(&file.encode()).unwrap();
    let sites = file.functions.into_iter().flat_map(|known| known.sites);
    let counts = sites.map(|(site, parts)| (SiteId(site.into()), counts_of(&parts).unwrap()));
    Known {
        sites: counts.collect(),
        ..Known::default()
    }
}

/// Check that a host which has never run a program finds a first race of it sooner where it is told what two others have learned, in one lease each.
#[test]
fn hints_pay() {
    const SEEDS: u64 = 6;
    /// Of the time without.
    const WANTED: f64 = 0.7;
    let mut families = families::ALL.into_iter();
    let server = families.find(|family| family(1).name == "server").unwrap();
    let mut ratios = Vec::new();
    for seed in 1..=SEEDS {
        let program = server(seed);
        let nothing = Known::default();
        let others = [1, 2].map(|host| first_race(&program, seed * 1000 + host, &nothing).1);
        let told = shared(&program, others.into());
        let [with, without] = [&told, &nothing].map(|told| {
            let (found, _) = first_race(&program, seed * 1000, told);
            found.unwrap_or(LEASE_S)
        });
        println!("{seed}: {with:.1} s, without {without:.1} s");
        ratios.push(with / without);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!(median <= WANTED, "{ratios:.2?}");
}

/// What a small process saves in ten minutes, s, and how long its lease may last; its income, as it is thought of who uses hardly anything.
const SAVED_S: f64 = 20e-3;
const LONGEST_S: f64 = 60.0;
const INCOME: f64 = SHARE * 0.01;

/// A process that works for 2.5 ms in each second: half of its functions are executed then, and some pairs of places race.
fn in_bursts(seed: u64) -> Program {
    const FUNCTIONS: u32 = 60;
    const PLACES: u32 = 4;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut program = Program::new("bursts of a small process", "it sleeps nearly all the time");
    program.processors = 5e-3;
    let bursts = |rate| Comes::Bursts {
        apart: 1.0,
        lasts: 2.5e-3,
        rate,
    };
    for number in 0..FUNCTIONS {
        program.function();
        let sites: Vec<_> = (0..PLACES)
            .map(|place| {
                let comes = match number % 2 {
                    0 => bursts(1e4 * 10_f64.powf(-random.f64())),
                    _ => Comes::Never,
                };
                program.pointing(Some(MemberId(8 * place)), place % 2 == 0, comes)
            })
            .collect();
        if number % 10 == 0 {
            let objects = program.area(4);
            let pair = [sites[0], sites[1]];
            program.access(&pair, objects.shared(0.5));
            program.meet(pair, 0.5, [After::Rate(1e3); 2], Order::None);
        }
    }
    program
}

/// A planner that spends what its process has saved, and nothing more; and whether it is told that it is so.
struct OfSavings {
    planner: ByWorth,
    spent_s: f64,
    is_told: bool,
}

impl Planner for OfSavings {
    fn observe(&mut self, now: Duration, event: &Event) {
        if let What::Cost(cost_s) = event.what {
            self.spent_s += cost_s;
        }
        self.planner.observe(now, event);
    }

    fn decide(&mut self, now: Duration, _: &Purse) -> Action {
        let left_s = SAVED_S - self.spent_s;
        let purse = Purse {
            left_s,
            income: INCOME,
            most_s: SAVINGS_S,
            credit_s: 0.0,
        };
        let time_s = LONGEST_S - now.as_secs_f64();
        let purse = match self.is_told {
            true => purse.saved(SAVED_S, time_s),
            false => purse,
        };
        let mut action = self.planner.decide(now, &purse);
        if left_s <= 0.0 {
            action.deed = Deed::Rest {
                time: Duration::from_secs_f64(time_s.max(0.0)),
            };
        }
        action
    }

    fn stopped(
        &mut self,
        now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        self.planner.stopped(now, ahead, waited)
    }
}

/// Check that what a small process has saved is good for more stops where the planner is told that nothing of it is lost which is not spent at once: it waits for longer then, which costs time and no more.
#[test]
fn savings_are_spent_with_patience() {
    const SEEDS: u64 = 400;
    /// As many stops for the same, at least.
    const WANTED: f64 = 1.2;
    let stops = [true, false].map(|is_told| {
        let of_seed = |seed| {
            let program = in_bursts(seed);
            let mut planner = OfSavings {
                planner: ByWorth::new(seed),
                spent_s: 0.0,
                is_told,
            };
            let hunt = Hunt {
                share: 1.0,
                length_s: LONGEST_S,
                ..hunt(seed)
            };
            let run = simulate(&program, &mut planner, &hunt);
            assert!(run.spent_s < SAVED_S + 20e-3, "{}", run.spent_s);
            (run.stalls + run.looks, run.waits, run.finds.len())
        };
        let runs = (0..SEEDS).map(of_seed);
        runs.fold((0, 0, 0), |all, one| {
            (all.0 + one.0, all.1 + one.1, all.2 + one.2)
        })
    });
    println!("stops, waits and races in {SEEDS} leases, told of savings and not: {stops:?}");
    let [told, other] = stops.map(|(stops, ..)| stops as f64);
    assert!(told >= WANTED * other, "{stops:?}");
}

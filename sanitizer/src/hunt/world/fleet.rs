//! Many machines that execute the same program, each of which watches it by turns: what they find, and how soon, where each keeps what it learns to itself, and where they share it.
//!
//! Time passes in rounds. In each, a machine watches its process as often as that has earned it, with what it knew when the round began and has learned since; then it tells what it has learned, and is
//! told what all have. How they tell each other is up to whoever simulates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
};

use crate::hunt::plan::{counts::Counts, event::SiteId};

use super::{
    costs::{Costs, NESTED},
    lease::{Known, watch},
    population::Population,
    simulation::Hunt,
};

/// How a machine watches.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// What it costs to do something.
    pub costs: Costs,
    /// A lease, s.
    pub lease_s: f64,
    /// The share of the program's CPU time that may be spent in a lease, and in the long run.
    pub share: f64,
    /// See above.
    pub income: f64,
    /// A round, s.
    pub round_s: f64,
}

impl Turns {
    /// A lease of a fleet, what it may cost, and what a process earns; machines tell each other what they have learned each quarter of an hour.
    pub const USUAL: Self = Self {
        costs: NESTED,
        lease_s: 30.0,
        share: 0.05,
        income: 0.01,
        round_s: 900.0,
    };
}

/// A race that a machine has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Find {
    /// The machine.
    pub machine: usize,
    /// By the numbers of its sites.
    pub race: (usize, usize),
    /// When, s; since all began.
    pub time_s: f64,
}

/// What a machine has learned in a round.
#[derive(Debug, Default)]
pub struct Learned {
    /// What was seen at sites.
    pub sites: BTreeMap<SiteId, Counts>,
    /// The races that it has found and did not know.
    pub finds: Vec<Find>,
}

/// A machine.
#[derive(Clone, Debug, Default)]
struct Machine {
    /// What it was told, and what it has learned itself.
    told: Arc<Known>,
    own: Known,
    /// Leases so far.
    leases: u64,
    /// What it may spend, s.
    purse_s: f64,
}

/// All of them.
pub struct Fleet {
    population: Population,
    turns: Turns,
    seed: u64,
    machines: Vec<Machine>,
    /// Of each machine what it has learned in the last round.
    learned: Vec<Learned>,
    now_s: f64,
}

impl Fleet {
    /// So many machines that know nothing.
    #[must_use]
    pub fn new(population: Population, turns: Turns, machines: usize, seed: u64) -> Self {
        Self {
            population,
            turns,
            seed,
            machines: vec![Machine::default(); machines],
            learned: Vec::new(),
            now_s: 0.0,
        }
    }

    /// The time, s.
    #[must_use]
    pub const fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Leases that have been.
    #[must_use]
    pub fn leases(&self) -> u64 {
        self.machines.iter().map(|machine| machine.leases).sum()
    }

    /// The races that there are where at least one machine executes both sides.
    #[must_use]
    pub fn races(&self) -> BTreeSet<(usize, usize)> {
        let machines = 0..self.machines.len() as u64;
        let of = |machine| self.population.on(machine).pairs();
        machines.flat_map(of).collect()
    }

    /// What each machine has learned in the last round.
    #[must_use]
    pub fn learned(&self) -> &[Learned] {
        &self.learned
    }

    /// Has a round pass; what each machine has learned in it.
    pub fn round(&mut self) -> &[Learned] {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let each = self.machines.len().div_ceil(threads).max(1);
        let (population, turns) = (&self.population, &self.turns);
        let (now_s, seed) = (self.now_s, self.seed);
        let parts = self.machines.chunks_mut(each);
        self.learned = thread::scope(|scope| {
            let parts = parts.enumerate().map(|(part, machines)| {
                scope.spawn(move || {
                    let all = (part * each..).zip(machines);
                    all.map(|(number, machine)| {
                        machine.round(number, population, turns, now_s, seed)
                    })
                    .collect::<Vec<_>>()
                })
            });
            let parts: Vec<_> = parts.collect();
            let done = parts.into_iter().map(|part| match part.join() {
                Ok(learned) => learned,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            done.flatten().collect()
        });
        self.now_s += self.turns.round_s;
        &self.learned
    }

    /// Tells a machine what all have learned, this one among them, in place of what it was told before. What it has learned itself may be in it and may not be yet.
    pub fn tell(&mut self, machine: usize, known: Arc<Known>) {
        if let Some(machine) = self.machines.get_mut(machine) {
            machine.told = known;
        }
    }
}

impl Machine {
    fn round(
        &mut self,
        number: usize,
        population: &Population,
        turns: &Turns,
        now_s: f64,
        seed: u64,
    ) -> Learned {
        let (mut gained, mut finds) = (Known::default(), Vec::new());
        let program = population.on(number as u64);
        self.purse_s += turns.round_s * turns.income * program.processors;
        let wanted_s = turns.lease_s * turns.share * program.processors;
        let leases = (self.purse_s / wanted_s).floor().max(0.0);
        let apart_s = turns.round_s / leases.max(1.0);
        let mut begins_s = now_s;
        while self.purse_s >= wanted_s && begins_s < now_s + turns.round_s {
            let mut known = Known::clone(&self.told);
            known.keep_larger(&self.own);
            self.leases += 1;
            let hunt = Hunt {
                costs: turns.costs,
                share: turns.share,
                length_s: turns.lease_s,
                seed: of_lease(seed, number, self.leases),
                has_probes: false,
            };
            let gains = watch(&program, &hunt, &known);
            self.purse_s -= gains.run.spent_s;
            self.own.add(&gains.sites);
            gained.add(&gains.sites);
            for (race, find) in gains.run.races.iter().zip(&gains.run.finds) {
                self.own.races.insert(*race);
                finds.push(Find {
                    machine: number,
                    race: *race,
                    time_s: begins_s + find.time_s,
                });
            }
            begins_s += apart_s;
        }
        Learned {
            sites: gained.sites,
            finds,
        }
    }
}

/// What all chance of a lease follows from.
fn of_lease(seed: u64, machine: usize, lease: u64) -> u64 {
    let seed = fastrand::Rng::with_seed(seed ^ ((machine as u64) << 32)).u64(..);
    fastrand::Rng::with_seed(seed ^ lease).u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNS: Turns = Turns::USUAL;

    /// Check that the same seed gives the same, and that what others have seen changes where is looked, of who is told it.
    #[test]
    fn what_is_told_counts() {
        const MACHINES: usize = 2;
        let begin = || Fleet::new(Population::new(1), TURNS, MACHINES, 1);
        let tried = |fleet: &mut Fleet| -> Vec<BTreeMap<SiteId, Counts>> {
            fleet.round().iter().map(|of| of.sites.clone()).collect()
        };
        let first = tried(&mut begin());
        assert!(first.iter().all(|sites| sites.len() > 50));
        assert_eq!(tried(&mut begin()), first);
        let mut told = begin();
        let sites = first.iter().flatten();
        let known = Known {
            sites: sites.map(|(site, counts)| (*site, *counts)).collect(),
            ..Known::default()
        };
        told.tell(0, Arc::new(known));
        let other = tried(&mut told);
        assert_ne!(other[0], first[0]);
        assert_eq!(other[1], first[1]);
        assert!(told.leases() >= 2 * MACHINES as u64 && told.now_s() == TURNS.round_s);
    }
}

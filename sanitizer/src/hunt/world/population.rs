//! A program that executes on many machines, none of which executes all of it: configurations differ, and so does what is asked of them.
//!
//! Most of its code is executed nowhere, and most of the rest on some machines only, some of it on very few. A race is found where both of its sides are executed.

use super::{
    program::{Comes, Program},
    surroundings::{Objects, surround},
};

/// What surrounds the races: functions of six sites each, a bit less than half of which are executed somewhere.
const FUNCTIONS: usize = 3_000;
const EXECUTED: usize = 1_350;
/// Pairs of sites that use the same objects in an order, and in none.
const ORDERED: usize = 250;
const RACES: usize = 48;
/// Members by which they do.
const MEMBERS: u32 = 24;
/// How often threads come there, a second: from the first to the second, evenly by the logarithm.
const SELDOM: f64 = 0.3;
const OFTEN: f64 = 1e3;
/// CPU time that a process uses in a second: one of many on its machine.
const PROCESSORS: f64 = 0.1;

/// A build of a program, and where its functions are executed.
#[derive(Clone, Debug)]
pub struct Population {
    /// The program that executes all that any machine does.
    pub whole: Program,
    /// Of each site: the part of all machines on which its function is executed.
    parts: Vec<f64>,
    /// Of each site: what is executed together has the same.
    groups: Vec<u64>,
    seed: u64,
}

impl Population {
    /// A build, whose chances follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut whole = Program::new(
            "fleet server",
            "18,000 places on many machines, 48 pairs of which race, most of them on some machines only",
        );
        whole.processors = PROCESSORS;
        surround(&mut whole, FUNCTIONS, EXECUTED, &mut random);
        let alone = whole.sites.len();
        let objects = Objects {
            ordered: ORDERED,
            races: RACES,
            members: MEMBERS,
            seldom: SELDOM,
            often: OFTEN,
        };
        objects.use_in(&mut whole, &mut random);
        let mut groups = Vec::with_capacity(whole.sites.len());
        for (index, site) in whole.sites.iter().enumerate() {
            // Both sides of a pair are executed where one is.
            groups.push(match index.checked_sub(alone) {
                None => site.facts.function.0,
                Some(beyond) => u64::MAX - (beyond / 2) as u64,
            });
        }
        // Evenly spread: a half of all is executed on a quarter of the machines or less, an eighth on one in 64.
        let part = |group: &u64| chance(seed, *group, 0).powi(2);
        let parts = groups.iter().map(part).collect();
        Self {
            whole,
            parts,
            groups,
            seed,
        }
    }

    /// The program as a machine executes it.
    #[must_use]
    pub fn on(&self, machine: u64) -> Program {
        let lives: Vec<bool> = (self.parts.iter().zip(&self.groups))
            .map(|(part, group)| chance(self.seed, *group, machine + 1) < *part)
            .collect();
        let is_alive = |site: usize| lives.get(site).copied().unwrap_or(false);
        let mut program = self.whole.clone();
        for (index, site) in program.sites.iter_mut().enumerate() {
            if !is_alive(index) {
                site.comes = Comes::Never;
                site.cpu = 0.0;
            }
        }
        let meetings = &mut program.meetings;
        meetings.retain(|meeting| is_alive(meeting.site) && is_alive(meeting.other));
        program.changing.retain(|(_, site)| is_alive(*site));
        program
    }
}

/// A number between 0 and 1 that follows from these.
fn chance(seed: u64, group: u64, machine: u64) -> f64 {
    // Of the golden ratio: what follows from neighbours is far apart.
    const RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (seed.wrapping_mul(RATIO) ^ group).wrapping_mul(RATIO) ^ machine;
    let mut random = fastrand::Rng::with_seed(mixed.wrapping_mul(RATIO));
    random.f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that machines differ in what they execute, that the same one always executes the same, and that on many machines each race is somewhere.
    #[test]
    fn machines_differ() {
        const MACHINES: u64 = 1000;
        let population = Population::new(1);
        let executed = |program: &Program| {
            let sites = program.sites.iter();
            sites.filter(|site| site.comes != Comes::Never).count()
        };
        let all = population.whole.sites.len();
        let somewhere = executed(&population.whole);
        assert!(
            (all * 4 / 10..all / 2).contains(&somewhere),
            "{somewhere} of {all}"
        );
        let mut races = std::collections::BTreeSet::new();
        let mut on_one = Vec::new();
        for machine in 0..MACHINES {
            let program = population.on(machine);
            if machine < 2 {
                assert_eq!(executed(&program), executed(&population.on(machine)));
                on_one.push(program.pairs());
            }
            let part = executed(&program) as f64 / somewhere as f64;
            assert!((0.2..0.5).contains(&part), "{part}");
            races.extend(program.pairs());
        }
        assert_ne!(on_one[0], on_one[1]);
        assert!(
            races.len() >= RACES - 1 && population.whole.races() == RACES,
            "{}",
            races.len()
        );
    }
}

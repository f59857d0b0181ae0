//! Which processes there are: what each executes, and whether requests come to it.

use anyhow::{Result, ensure};

/// Of so many programs one has a race, unless something else is wanted.
const RACY_ONE_IN: usize = 5;

/// See the module. Processes are counted from 0: the first ones are active, and each executes the program behind that of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub processes: usize,
    pub binaries: usize,
    pub active: usize,
    /// The first programs have a race each.
    pub racy: usize,
}

impl Plan {
    /// Checks that it can be. `racy`: a fifth of the programs where nothing is said.
    pub fn new(
        processes: usize,
        binaries: usize,
        active: usize,
        racy: Option<usize>,
    ) -> Result<Self> {
        let racy = racy.unwrap_or(binaries / RACY_ONE_IN);
        ensure!(
            binaries > 0 && active > 0,
            "there must be at least one program and one active process"
        );
        ensure!(
            active <= processes,
            "of {processes} processes {active} cannot be active"
        );
        ensure!(
            racy <= binaries.min(active),
            "{racy} programs with a race need as many programs and active processes"
        );
        Ok(Self {
            processes,
            binaries,
            active,
            racy,
        })
    }

    /// The program that a process executes.
    pub const fn binary(&self, process: usize) -> usize {
        process % self.binaries
    }

    /// Whether a program has a race.
    pub const fn is_racy(&self, binary: usize) -> bool {
        binary < self.racy
    }

    /// The share of a processor that a process uses if all together use this share of so many processors.
    pub fn share(&self, process: usize, load: f64, processors: usize) -> f64 {
        if process < self.active {
            load * processors as f64 / self.active as f64
        } else {
            0.0
        }
    }

    /// How many of these processes, the first ones, can be watched one by one: an active one of each program at most.
    pub fn one_of_each(&self, most: usize) -> usize {
        most.min(self.binaries).min(self.active)
    }
}

/// The program whose function this is, by the names that `tests/fixtures/bench/fleet.c` gives.
pub fn binary_of(function: &str) -> Option<usize> {
    function.strip_prefix("served_")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that active processes and races are spread over the programs, and that what cannot be is refused.
    #[test]
    fn who_does_what() {
        let plan = Plan::new(40, 8, 10, None).unwrap();
        assert_eq!(plan.racy, 1);
        assert_eq!([0, 7, 8, 39].map(|one| plan.binary(one)), [0, 7, 0, 7]);
        assert!(plan.is_racy(0) && !plan.is_racy(1));
        let all: f64 = (0..40).map(|one| plan.share(one, 0.5, 2)).sum();
        assert!((all - 1.0).abs() < 1e-9);
        assert!(plan.share(10, 0.5, 2).abs() < 1e-9);
        assert_eq!([3, 50].map(|most| plan.one_of_each(most)), [3, 8]);
        for (processes, binaries, active, racy) in [
            (10, 0, 1, None),
            (10, 2, 0, None),
            (10, 2, 11, None),
            (10, 2, 5, Some(3)),
            (10, 4, 2, Some(3)),
        ] {
            assert!(Plan::new(processes, binaries, active, racy).is_err());
        }
    }

    /// Check the names of functions.
    #[test]
    fn names() {
        assert_eq!(binary_of("served_17"), Some(17));
        assert_eq!(binary_of("store"), None);
        assert_eq!(binary_of("served_x"), None);
    }
}

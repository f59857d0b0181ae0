//! The results of a test suite, and what of them is worse than before.

use std::collections::BTreeMap;

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// The outcomes of all tests of a suite, by their names.
#[derive(Clone, Debug, Default)]
pub struct Results {
    outcomes: BTreeMap<String, Outcome>,
    /// Single checks inside of those tests, where they are counted.
    checks: usize,
}

impl Results {
    /// Adds a test; one that runs more than once has failed if it has failed once.
    pub fn add(&mut self, test: impl Into<String>, outcome: Outcome) {
        let known = self.outcomes.entry(test.into()).or_insert(outcome);
        if outcome == Outcome::Failed {
            *known = outcome;
        }
    }

    /// Counts checks inside of a test.
    pub fn add_checks(&mut self, checks: usize) {
        self.checks += checks;
    }

    /// Adds all of another part of the suite.
    pub fn merge(&mut self, other: Self) {
        for (test, outcome) in other.outcomes {
            self.add(test, outcome);
        }
        self.checks += other.checks;
    }

    /// The outcomes that all the runs share.
    pub fn agreed(runs: &[Self]) -> Self {
        let Some((first, others)) = runs.split_first() else {
            return Self::default();
        };
        let mut agreed = first.clone();
        agreed.outcomes.retain(|test, outcome| {
            others
                .iter()
                .all(|run| run.outcomes.get(test) == Some(&*outcome))
        });
        agreed
    }

    /// The tests of these runs whose outcomes are not agreed on.
    pub fn unstable<'a>(&self, runs: &'a [Self]) -> Vec<&'a str> {
        let mut tests: Vec<&str> = runs
            .iter()
            .flat_map(|run| run.outcomes.keys())
            .filter(|test| !self.outcomes.contains_key(*test))
            .map(String::as_str)
            .collect();
        tests.sort_unstable();
        tests.dedup();
        tests
    }

    /// The tests that pass here, and in the other run fail, are skipped, or are not even run.
    pub fn worse_in(&self, other: &Self) -> Vec<String> {
        let passed = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| **outcome == Outcome::Passed);
        passed
            .filter(|(test, _)| other.outcomes.get(*test) != Some(&Outcome::Passed))
            .map(|(test, _)| test.clone())
            .collect()
    }

    /// How many tests pass.
    pub fn passed(&self) -> usize {
        let outcomes = self.outcomes.values();
        outcomes
            .filter(|outcome| **outcome == Outcome::Passed)
            .count()
    }

    /// How many tests there are.
    pub fn describe(&self) -> String {
        match self.checks {
            0 => self.outcomes.len().to_string(),
            checks => format!("{} with {checks} checks", self.outcomes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(tests: &[(&str, Outcome)]) -> Results {
        let mut results = Results::default();
        for (test, outcome) in tests {
            results.add(*test, *outcome);
        }
        results
    }

    /// Check that only what passes each time by itself counts, and that a test which is not run
    /// any more is worse.
    #[test]
    fn comparison() {
        use Outcome::{Failed, Passed, Skipped};
        let names = ["good", "flaky", "bad", "skipped", "lost"];
        let run = |outcomes: [Outcome; 5]| {
            let tests: Vec<_> = names.into_iter().zip(outcomes).collect();
            results(&tests)
        };
        let alone = [
            run([Passed, Passed, Failed, Skipped, Passed]),
            run([Passed, Failed, Failed, Skipped, Passed]),
        ];
        let stable = Results::agreed(&alone);
        assert_eq!(stable.unstable(&alone), ["flaky"]);
        assert_eq!(stable.passed(), 2);
        assert!(stable.worse_in(&alone[1]).is_empty());
        let watched = results(&[("good", Passed), ("flaky", Failed), ("bad", Failed)]);
        assert_eq!(stable.worse_in(&watched), ["lost"]);
        let watched = results(&[("good", Failed), ("lost", Skipped), ("skipped", Passed)]);
        assert_eq!(stable.worse_in(&watched), ["good", "lost"]);
    }

    /// Check that a test which fails once has failed.
    #[test]
    fn repetitions() {
        let mut twice = results(&[("a", Outcome::Failed), ("a", Outcome::Passed)]);
        assert_eq!(twice.passed(), 0);
        twice.merge(results(&[("b", Outcome::Passed)]));
        assert_eq!((twice.passed(), twice.describe().as_str()), (1, "2"));
    }
}

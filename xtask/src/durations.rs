//! How long each test has taken, read off what `cargo test` prints: the standard harness says when a test has
//! ended, starts them in the order of their names, so many at once, and the next one when one has ended.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How many of the slowest tests are listed.
const LISTED: usize = 20;

/// Listens to the output of `cargo test`.
#[derive(Debug)]
pub struct Durations {
    at_once: usize,
    begun: Duration,
    ended: Vec<(String, Duration)>,
    taken: Vec<(String, Duration)>,
}

impl Durations {
    /// Of tests of which so many run at once.
    pub const fn new(at_once: usize) -> Self {
        Self {
            at_once,
            begun: Duration::ZERO,
            ended: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Takes note of a line that was printed at this time, which counts from any instant on.
    pub fn hear(&mut self, line: &str, now: Duration) {
        if line.starts_with("running ") {
            self.close();
            self.begun = now;
        } else if let Some(name) = ended(line) {
            self.ended.push((name.to_owned(), now));
        }
    }

    /// Knows when each test of a binary has begun, now that all have ended.
    fn close(&mut self) {
        let mut in_order: Vec<&str> = self.ended.iter().map(|(name, _)| name.as_str()).collect();
        in_order.sort_unstable();
        let mut waiting: VecDeque<&str> = in_order.into();
        let mut running = BTreeMap::new();
        let first = self.at_once.min(waiting.len());
        running.extend(waiting.drain(..first).map(|name| (name, self.begun)));
        let mut before = self.begun;
        for (name, now) in &self.ended {
            // One that has ended without having begun has overtaken others: it began at some time after this.
            let begun = running.remove(name.as_str()).unwrap_or(before);
            self.taken.push((name.clone(), now.saturating_sub(begun)));
            running.extend(waiting.pop_front().map(|next| (next, *now)));
            before = *now;
        }
        self.ended.clear();
    }

    /// The tests and how long each has taken, the slowest first.
    pub fn taken(&mut self) -> Vec<(String, Duration)> {
        self.close();
        let mut taken = self.taken.clone();
        taken.sort_by(|(_, one), (_, other)| other.cmp(one));
        taken
    }

    /// Prints the slowest tests, and what those of each module have taken together.
    pub fn print(&mut self) {
        let taken = self.taken();
        println!(
            "==> the slowest of {} tests, {} at once",
            taken.len(),
            self.at_once
        );
        for (name, time) in taken.iter().take(LISTED) {
            println!("    {:7.1} s  {name}", time.as_secs_f64());
        }
        let mut modules: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for (name, time) in &taken {
            let module = name.split("::").next().unwrap_or(name);
            let (count, sum) = modules.entry(module).or_default();
            *count += 1;
            *sum += *time;
        }
        let mut modules: Vec<_> = modules.into_iter().collect();
        modules.sort_by_key(|(_, (_, sum))| std::cmp::Reverse(*sum));
        println!("==> the modules that take longest, the times of their tests added up");
        for (module, (count, sum)) in modules.iter().take(LISTED) {
            println!("    {:7.1} s  {module} ({count})", sum.as_secs_f64());
        }
    }
}

/// The name of the test that a line tells the end of.
pub fn ended(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let is_outcome = ["ok", "FAILED", "ignored"]
        .iter()
        .any(|word| outcome.starts_with(word));
    is_outcome.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[(u64, &str)]) -> Vec<(String, u64)> {
        let mut durations = Durations::new(2);
        for (seconds, line) in lines {
            durations.hear(line, Duration::from_secs(*seconds));
        }
        let taken = durations.taken().into_iter();
        taken.map(|(name, time)| (name, time.as_secs())).collect()
    }

    /// Check that a test begins when one has ended before, and is the next by name.
    #[test]
    fn tests_follow_each_other() {
        let taken = heard(&[
            (5, "running 4 tests"),
            (6, "test b ... ok"),
            (9, "test c ... FAILED"),
            (20, "test a ... ok"),
            (20, "test a has been running for over 60 seconds"),
            (21, "test d ... ok"),
            (21, "test result: ok. 4 passed; 0 failed"),
        ]);
        let taken: Vec<_> = taken
            .iter()
            .map(|(name, time)| (name.as_str(), *time))
            .collect();
        assert_eq!(taken, [("a", 15), ("d", 12), ("c", 3), ("b", 1)]);
    }

    /// Check that each binary begins anew.
    #[test]
    fn binaries_follow_each_other() {
        let taken = heard(&[
            (0, "running 1 test"),
            (7, "test z ... ok"),
            (100, "running 2 tests"),
            (101, "test b ... ignored"),
            (102, "test a ... ok"),
        ]);
        let times: Vec<_> = taken.iter().map(|(_, time)| *time).collect();
        assert_eq!(times, [7, 2, 1]);
    }
}

//! `cargo xtask bench real --restarts`: what the ledger is worth when a program is started again.
//!
//! For each pair of runs the program runs once before, with a new ledger. Then it is started twice again, once with a copy of that ledger and once
//! with none, in turns: how long it takes until a pair of lines is found that was not found in the run before.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};

use super::{
    Options, ROOM,
    pairs::{self, Pair},
    program::{self, Load, Program, Way},
};
use crate::{
    bench::{machine, statistics::median, table::Table},
    paths,
};

/// What is run again and again.
struct Bench<'a> {
    options: &'a Options,
    program: &'a dyn Program,
    load: &'a Load,
    watched: &'a Path,
    gwp_race: &'a Path,
}

/// The pairs of a run, each with when it was found, seconds after the beginning.
type Found = Vec<(Pair, f64)>;

impl Bench<'_> {
    fn run(&self, ledger: Option<&Path>, seconds: u64) -> Result<Found> {
        let more = match ledger {
            Some(ledger) => vec!["--ledger".into(), ledger.into()],
            None => Vec::new(),
        };
        let way = Way::Watched {
            gwp_race: self.gwp_race,
            max_overhead: &self.options.max_overhead,
            more: &more,
        };
        let (command, report) = way.command(self.watched)?;
        let begun = SystemTime::now();
        self.program
            .run(command, self.load, Duration::from_secs(seconds))?;
        let times = pairs::times_of_gwp_race(&program::text(&report)?);
        let since = |time: SystemTime| time.duration_since(begun).unwrap_or_default();
        let found = times.into_iter();
        Ok(found
            .map(|(pair, time)| (pair, since(time).as_secs_f64()))
            .collect())
    }
}

/// When the first of them was found that was not known, if any was.
fn first_new(found: &Found, known: &BTreeSet<Pair>) -> Option<f64> {
    let new = found.iter().filter(|(pair, _)| !known.contains(pair));
    new.map(|(_, time)| *time).reduce(f64::min)
}

/// A ledger's files.
fn remove(ledger: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = ledger.as_os_str().to_owned();
        name.push(end);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

/// Measures so many pairs of runs as is asked for, and publishes them.
pub fn compare(
    options: &Options,
    program: &dyn Program,
    load: &Load,
    watched: &Path,
    gwp_race: &Path,
) -> Result<()> {
    let bench = Bench {
        options,
        program,
        load,
        watched,
        gwp_race,
    };
    let [before, copy] =
        ["before.ledger", "copy.ledger"].map(|name| paths::target().join(ROOM).join(name));
    let mut table = Table::new(&["known before", "without, s", "with what was learned, s"]);
    let mut times = [Vec::new(), Vec::new()];
    let longest = options.seconds as f64;
    for number in 1..=options.runs {
        println!("==> pair {number} of {}", options.runs);
        remove(&before);
        let known = bench.run(Some(&before), options.before)?;
        let known: BTreeSet<Pair> = known.into_iter().map(|(pair, _)| pair).collect();
        let mut row = vec![known.len().to_string(), String::new(), String::new()];
        // Each is the first one in turn.
        for turn in 0..2 {
            let is_with = (number + turn) % 2 == 0;
            remove(&copy);
            let ledger = if is_with {
                fs::copy(&before, &copy)
                    .with_context(|| format!("copying {}", before.display()))?;
                Some(copy.as_path())
            } else {
                None
            };
            let first = first_new(&bench.run(ledger, options.seconds)?, &known);
            let said =
                first.map_or_else(|| format!("none in {longest}"), |time| format!("{time:.1}"));
            println!("{}: {said}", if is_with { "with" } else { "without" });
            times[usize::from(is_with)].push(first.unwrap_or(longest));
            row[1 + usize::from(is_with)] = said;
        }
        table.row(row);
    }
    remove(&before);
    remove(&copy);
    let mut description = machine::description();
    let [without, with] = times.map(|times| median(&times));
    description.push(format!(
        "Load: {}; --max-overhead {}. Each time the program has run for {} s before; then seconds until a pair was found that was not found there, of {} at most: {without:.1} in the median \
         without, {with:.1} with what was learned ({:.0} %).",
        program.work(load),
        options.max_overhead,
        options.before,
        options.seconds,
        100.0 * with / without.max(f64::MIN_POSITIVE),
    ));
    table.publish(&super::table_name(options, "restarts"), &description)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what was known is no news, and that the first of the others counts.
    #[test]
    fn news() {
        let pair = |line: u32| (format!("a.c:{line}"), "b.c:1".to_owned());
        let found = vec![(pair(1), 2.0), (pair(2), 9.0), (pair(3), 4.5)];
        let known = |lines: &[u32]| lines.iter().map(|line| pair(*line)).collect();
        assert_eq!(first_new(&found, &known(&[1])), Some(4.5));
        assert_eq!(first_new(&found, &known(&[])), Some(2.0));
        assert_eq!(first_new(&found, &known(&[1, 2, 3])), None);
    }
}

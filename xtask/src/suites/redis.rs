//! Units of redis' own suite: Tcl that starts servers, and waits for the process ids that it knows.

use std::process::Stdio;

use anyhow::{Context as _, Result};

use super::{
    Suite,
    results::{Outcome, Results},
    watching::{Watching, Way, stand_in},
};
use crate::{
    source::{METADATA_FLAGS, Tree},
    steps::step,
};

/// Those with threads, forks, signals, blocked clients and crashes.
const UNITS: [&str; 9] = [
    "unit/type/list",
    "unit/expire",
    "unit/multi",
    "unit/other",
    "unit/lazyfree",
    "unit/shutdown",
    "unit/wait",
    "integration/aof",
    "integration/logging",
];
/// How many seconds a unit may take; the longest takes a minute by itself.
const LIMIT: &str = "400";

pub struct Redis;

impl Suite for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn package(&self) -> &'static str {
        "redis"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["tcl"]
    }

    fn build(&self, tree: &Tree) -> Result<()> {
        step(
            "building redis",
            tree.command("make")
                .args([
                    "-j2",
                    "--quiet",
                    "CC=clang-22",
                    "MALLOC=libc",
                    "OPTIMIZATION=-O2",
                ])
                .arg(format!("REDIS_CFLAGS={METADATA_FLAGS}")),
        )?;
        stand_in(&tree.path().join("src/redis-server"), &Way::Attach)
    }

    fn run(&self, tree: &Tree, watching: Option<&Watching>) -> Result<Results> {
        let mut results = Results::default();
        for unit in UNITS {
            let mut command = tree.command("timeout");
            command.args(["--kill-after=10", LIMIT, "./runtest", "--clients", "1"]);
            command.args(["--single", unit]);
            // With a terminal that knows colours it writes them around each `ok`.
            command.env("TERM", "dumb");
            if let Some(watching) = watching {
                watching.environment(&mut command);
            }
            let output = command
                .stdin(Stdio::null())
                .output()
                .context("redis' tests cannot be started")?;
            let text = String::from_utf8_lossy(&output.stdout);
            results.merge(read_output(unit, &text, output.status.success()));
        }
        Ok(results)
    }
}

/// Reads lines such as `[ok]: LPUSH works (3 ms)`. The unit is a test as well.
fn read_output(unit: &str, output: &str, success: bool) -> Results {
    let mut results = Results::default();
    for line in output.lines() {
        for (mark, outcome) in [
            ("[ok]: ", Outcome::Passed),
            ("[err]: ", Outcome::Failed),
            ("[exception]: ", Outcome::Failed),
        ] {
            if let Some((_, test)) = line.split_once(mark) {
                results.add(format!("{unit}: {}", without_remarks(test)), outcome);
            }
        }
    }
    let outcome = if success {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    results.add(unit, outcome);
    results
}

/// A test's name without the time that it took, or the file that it is in.
fn without_remarks(test: &str) -> &str {
    let named = test
        .rsplit_once(" in tests/")
        .map_or(test, |(name, _)| name);
    match named.rsplit_once(" (") {
        Some((name, time)) if time.ends_with(" ms)") => name,
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a test has one name, whether it passes or fails.
    #[test]
    fn names() {
        let good = read_output("u", "[ok]: A (b) c (12 ms)\n", true);
        let bad = read_output("u", "[err]: A (b) c in tests/unit/u.tcl\n", false);
        assert_eq!(good.worse_in(&bad), ["u", "u: A (b) c"]);
    }
}

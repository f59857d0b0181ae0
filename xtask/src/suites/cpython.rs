//! CPython's tests of threads, signals, forks and child processes.

use std::{
    fs::{self, File},
    process::Stdio,
};

use anyhow::{Context as _, Result};

use super::{
    Suite,
    results::{Outcome, Results},
    watching::Watching,
};
use crate::{
    paths,
    source::{METADATA_FLAGS, Tree},
    steps::step,
};

/// Modules of the package `test`.
const MODULES: [&str; 5] = [
    "test_thread",
    "test_fork1",
    "test_threading",
    "test_subprocess",
    "test_signal",
];
/// How many seconds a module may take; the longest takes 50 by itself.
const LIMIT: &str = "400";

pub struct Cpython;

impl Suite for Cpython {
    fn name(&self) -> &'static str {
        "cpython"
    }

    /// That of Debian 12.
    fn package(&self) -> &'static str {
        "python3.11"
    }

    fn build(&self, tree: &Tree) -> Result<()> {
        step(
            "configuring CPython",
            tree.command("./configure")
                .args(["--quiet", "--without-ensurepip", "CC=clang-22"])
                .arg(format!("CFLAGS={METADATA_FLAGS}")),
        )?;
        step(
            "building CPython (some minutes)",
            tree.command("make").args(["-j2", "--quiet"]),
        )
    }

    fn run(&self, tree: &Tree, watching: Option<&Watching>) -> Result<Results> {
        let mut results = Results::default();
        for module in MODULES {
            let file = tree.path().join(format!("{module}.outcomes"));
            let _ = fs::remove_file(&file);
            let output = File::create(tree.path().join(format!("{module}.output")))?;
            let mut command = tree.command("timeout");
            command.args(["--kill-after=10", LIMIT]);
            if let Some(watching) = watching {
                watching.prefix(&mut command, module);
            }
            command
                .arg("./python")
                .arg(paths::root().join("xtask/src/suites/outcomes.py"))
                .arg(&file)
                .arg(format!("test.{module}"));
            // Its tests of terminals and of descriptors want no terminal and no pipe of ours.
            command
                .stdin(Stdio::null())
                .stdout(output.try_clone()?)
                .stderr(output);
            let status = command.status().context("CPython cannot be started")?;
            let outcomes = fs::read_to_string(&file).unwrap_or_default();
            results.merge(read_outcomes(module, &outcomes, status.success()));
        }
        Ok(results)
    }
}

/// Reads what outcomes.py writes. The module is a test as well: it passes if all ended well.
fn read_outcomes(module: &str, outcomes: &str, success: bool) -> Results {
    let mut results = Results::default();
    for line in outcomes.lines() {
        match line.split_once(' ') {
            Some(("ok", test)) => results.add(test, Outcome::Passed),
            Some(("skipped", test)) => results.add(test, Outcome::Skipped),
            Some((_, test)) => results.add(test, Outcome::Failed),
            None => {}
        }
    }
    let ended = success && outcomes.lines().last() == Some("end");
    results.add(
        module,
        if ended {
            Outcome::Passed
        } else {
            Outcome::Failed
        },
    );
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a crash shows, also where no test has failed before it.
    #[test]
    fn outcomes() {
        let whole = read_outcomes("m", "ok a\nskipped b\nend\n", true);
        assert_eq!((whole.passed(), whole.describe().as_str()), (2, "3"));
        assert_eq!(whole.worse_in(&read_outcomes("m", "ok a\n", false)), ["m"]);
        assert_eq!(
            whole.worse_in(&read_outcomes("m", "failed a\nend\n", true)),
            ["a"]
        );
    }
}

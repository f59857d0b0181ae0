//! memcached's own suite: Perl scripts that start servers and print TAP, the Test Anything Protocol.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Mutex,
    thread,
};

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

/// Scripts that run at the same time; most of them wait for most of the time.
const AT_ONCE: usize = 3;
/// How many seconds a script may take; the longest takes half a minute by itself.
const LIMIT: &str = "180";

pub struct Memcached;

impl Suite for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn package(&self) -> &'static str {
        "memcached"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["libevent-dev"]
    }

    fn build(&self, tree: &Tree) -> Result<()> {
        step(
            "configuring memcached",
            tree.command("./configure")
                .args(["--quiet", "--disable-docs", "--enable-extstore"])
                // Its counters race, as they are meant to.
                .arg("--disable-coverage")
                .arg("CC=clang-22")
                .arg(format!("CFLAGS={METADATA_FLAGS}")),
        )?;
        step(
            "building memcached",
            tree.command("make").args(["-j2", "--quiet"]),
        )?;
        stand_in(&tree.path().join("memcached-debug"), &Way::Run)
    }

    fn run(&self, tree: &Tree, watching: Option<&Watching>) -> Result<Results> {
        let mut scripts = Vec::new();
        let directory = tree.path().join("t");
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "t") {
                scripts.push(path);
            }
        }
        scripts.sort_unstable();
        let (queue, results) = (Mutex::new(scripts), Mutex::new(Results::default()));
        let next = || queue.lock().ok()?.pop();
        let work = || -> Result<()> {
            while let Some(script) = next() {
                let of_script = run_script(tree, &script, watching)?;
                if let Ok(mut results) = results.lock() {
                    results.merge(of_script);
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(results.into_inner().unwrap_or_default())
    }
}

fn run_script(tree: &Tree, script: &Path, watching: Option<&Watching>) -> Result<Results> {
    let name = script.file_name().map(PathBuf::from).unwrap_or_default();
    let mut command = tree.command("timeout");
    command.args(["--kill-after=10", LIMIT, "perl"]).arg(script);
    if let Some(watching) = watching {
        watching.environment(&mut command);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("perl cannot be started")?;
    let tap = String::from_utf8_lossy(&output.stdout);
    Ok(read_tap(
        &name.display().to_string(),
        &tap,
        output.status.success(),
    ))
}

/// A script is one test, which has passed if it says so: how many checks it makes depends on
/// timing. Those that fail are named too.
fn read_tap(script: &str, tap: &str, success: bool) -> Results {
    let mut results = Results::default();
    let skipped = tap.starts_with("1..0");
    let outcome = match (skipped, success) {
        (_, false) => Outcome::Failed,
        (true, true) => Outcome::Skipped,
        (false, true) => Outcome::Passed,
    };
    results.add(script, outcome);
    for line in tap.lines() {
        if let Some(check) = line.strip_prefix("not ok ") {
            if !check.contains("# TODO") {
                let number = check.split_whitespace().next().unwrap_or("?");
                println!("    {script}, check {number} fails");
                results.add(script, Outcome::Failed);
            }
            results.add_checks(1);
        } else if line.starts_with("ok ") {
            results.add_checks(1);
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check what a script's output and end mean together.
    #[test]
    fn outcomes() {
        let passed = |tap: &str, success| read_tap("a.t", tap, success).passed();
        assert_eq!(passed("1..2\nok 1 - a\nok 2 - b\n", true), 1);
        assert_eq!(passed("1..2\nok 1 - a\nnot ok 2 - b\n", true), 0);
        assert_eq!(passed("1..1\nnot ok 1 # TODO later\n", true), 1);
        assert_eq!(passed("1..2\nok 1 - a\n", false), 0);
        assert_eq!(passed("1..0 # SKIP no TLS\n", true), 0);
        let two = read_tap("a.t", "1..2\nok 1 - a\nok 2 - b\n", true);
        assert_eq!(two.describe(), "1 with 2 checks");
    }
}

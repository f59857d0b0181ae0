//! sqlite: its own test of threads that share databases, `threadtest3`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    ROOM,
    program::{Build, Load, Program},
};
use crate::{paths, source::Tree, steps::step};

/// The part that says how much it has done, and the seconds that it lasts; it is always the first.
const COUNTED: (&str, u64) = ("walthread1", 20);
/// All parts, those first that share the most.
const PARTS: [(&str, u64); 9] = [
    COUNTED,
    ("stress1", 10),
    ("shared1", 10),
    ("walthread3", 20),
    ("stress2", 60),
    ("walthread2", 20),
    ("walthread4", 20),
    ("dynamic_triggers", 20),
    ("lookaside1", 10),
];

/// How it ends where some part has counted an error.
const FAILED: i32 = 255;

pub struct Sqlite;

impl Program for Sqlite {
    fn package(&self) -> &'static str {
        "sqlite3"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["tcl"]
    }

    fn work(&self, _load: &Load) -> String {
        let parts = PARTS.map(|(name, _)| name).join(", ");
        format!(
            "iterations of walthread1, in sqlite's threadtest3 (of {parts} as many as the time allows)"
        )
    }

    fn build(&self, build: Build, tree: &Tree, directory: &Path) -> Result<()> {
        step(
            &format!("configuring sqlite, {}", build.name()),
            Command::new(tree.path().join("configure"))
                .current_dir(directory)
                .args(["--quiet", "--disable-tcl", "CC=clang-22"]),
        )?;
        step(
            "putting its source into one file",
            Command::new("make")
                .current_dir(directory)
                .args(["--quiet", "sqlite3.c"]),
        )?;
        let source = tree.path();
        step(
            "building it",
            Command::new("clang-22")
                .current_dir(directory)
                .args(build.link_flags()?.split(' '))
                .args(["-w", "-DSQLITE_THREADSAFE=1", "-I."])
                .arg(format!("-I{}", source.join("src").display()))
                .args([
                    source.join("test/threadtest3.c"),
                    source.join("src/test_multiplex.c"),
                    PathBuf::from("sqlite3.c"),
                ])
                .args(["-o", "threadtest3", "-ldl", "-lm", "-lpthread"]),
        )
    }

    fn built(&self) -> &'static str {
        "threadtest3"
    }

    fn lasts(&self, time: Duration) -> Duration {
        Duration::from_secs(parts(time).map(|(_, seconds)| seconds).sum())
    }

    fn run(&self, mut command: Command, _load: &Load, time: Duration) -> Result<f64> {
        // It makes its databases where it is started.
        let directory = paths::target().join(ROOM).join("databases");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        command.args(parts(time).map(|(name, _)| name));
        let output = command
            .current_dir(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .context("starting threadtest3")?
            .wait_with_output()?;
        fs::remove_dir_all(&directory)
            .with_context(|| format!("removing {}", directory.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        match (output.status.code(), said.lines().last()) {
            (Some(0), _) => {}
            // Some of its parts depend on time.
            (Some(FAILED), Some(errors)) => println!("threadtest3: {errors}"),
            _ => bail!("threadtest3 ended with {}: {said}", output.status),
        }
        Ok(iterations(&said) as f64 / COUNTED.1 as f64)
    }
}

/// Those that are run where it is to run for so long: it may be a little more, and once all of them at most.
fn parts(time: Duration) -> impl Iterator<Item = (&'static str, u64)> {
    let mut left = time.as_secs();
    PARTS.into_iter().take_while(move |(_, seconds)| {
        let is_wanted = left > 0;
        left = left.saturating_sub(*seconds);
        is_wanted
    })
}

/// All that its threads say they have done.
fn iterations(said: &str) -> u64 {
    let lines = said.lines().filter_map(|line| {
        let (before, _) = line.rsplit_once(" iterations")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    lines.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that there is always a part, and how long those last that are run.
    #[test]
    fn parts_fill_the_time() {
        let lasts = |seconds| Sqlite.lasts(Duration::from_secs(seconds)).as_secs();
        assert_eq!([1, 20, 21, 60].map(lasts), [20, 20, 30, 60]);
        let all: u64 = PARTS.map(|(_, seconds)| seconds).into_iter().sum();
        assert_eq!(lasts(600), all);
    }

    /// Check that what all threads have done is added up.
    #[test]
    fn work_is_counted() {
        let said = "Running walthread1 for 20 seconds...\n\
            Thread 0 says: 120 iterations\nThread 1 says: 3 iterations\nThread 2 says: ...\n0 errors out of 1 tests\n";
        assert_eq!(iterations(said), 123);
    }
}

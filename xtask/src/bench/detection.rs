//! How soon gwp-race reports a race: from its start to the moment the report is in the file.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::reported::reported;
use crate::{children, fixture, paths};

/// Between two looks at the file.
const POLL: Duration = Duration::from_millis(2);

/// What came of a run.
pub struct Detection {
    /// Seconds to the first report; infinite where there was none.
    pub seconds: f64,
    /// The functions of each reported pair.
    pub pairs: Vec<[String; 2]>,
}

/// A file with the report of a race, as a gwp-race of now writes it.
pub fn report_of_a_race(gwp_race: &Path) -> Result<PathBuf> {
    /// Seconds in which one is to be found.
    const LIMIT: f64 = 30.0;
    let program = fixture::compile("bench", "increments")?;
    let arguments = [LIMIT.to_string(), "0".to_owned()];
    let found = detect(gwp_race, &[], &program, &arguments, LIMIT)?;
    ensure!(
        found.seconds.is_finite(),
        "no race was found in {} within {LIMIT} s, so there is no report; try again",
        program.display()
    );
    Ok(report())
}

/// Where reports go.
fn report() -> PathBuf {
    paths::target().join("bench/report.json")
}

/// Runs a program under gwp-race until the first report, or for this many seconds at most.
pub fn detect(
    gwp_race: &Path,
    options: &[&str],
    program: &Path,
    arguments: &[String],
    limit: f64,
) -> Result<Detection> {
    let report = report();
    let _ = fs::remove_file(&report);
    let mut command = Command::new(gwp_race);
    command
        .arg("run")
        .args(options)
        .args(["--format", "json", "--output"])
        .arg(&report)
        .arg("--")
        .arg(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().context("starting gwp-race")?;
    let seconds = loop {
        let elapsed = start.elapsed().as_secs_f64();
        let text = fs::read_to_string(&report).unwrap_or_default();
        if text.contains("\"type\":\"race\"") {
            break elapsed;
        }
        if elapsed >= limit {
            break f64::INFINITY;
        }
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                let mut said = String::new();
                let _ = child
                    .stderr
                    .take()
                    .map(|mut pipe| pipe.read_to_string(&mut said));
                bail!("gwp-race ended with {status}: {said}");
            }
            break f64::INFINITY;
        }
        thread::sleep(POLL);
    };
    end(&mut child, program)?;
    Ok(Detection {
        seconds,
        pairs: reported(&fs::read_to_string(&report).unwrap_or_default()),
    })
}

/// Ends the program, and gwp-race with it.
fn end(child: &mut Child, program: &Path) -> Result<()> {
    let program = program.canonicalize()?;
    let top = Pid::from_raw(child.id().cast_signed());
    // It may just be about to execute the program.
    while child.try_wait()?.is_none() {
        for pid in children::executing(top, &program) {
            let _ = kill(pid, Signal::SIGTERM);
        }
        thread::sleep(POLL);
    }
    Ok(())
}

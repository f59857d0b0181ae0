//! The units by which systemd starts daemon and agent, as systemd-analyze(1) judges them: whether they are some, and how exposed the machine is to them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::folder;
use crate::{paths, steps::step};

/// The folder of the units.
const FOLDER: &str = "sanitizer/debian";
/// Those that start something.
const SERVICES: [&str; 2] = ["gwp-race-fleet.service", "gwp-race-agent.service"];
/// Those by which others come to it.
const SOCKETS: [&str; 1] = ["gwp-race-agent.socket"];
/// Where their program is on the machine of whoever installs the package.
const PROGRAM: &str = "/usr/bin/gwp-race";
/// How exposed a machine may be, in tenths, as systemd counts it: from 50 on that is "medium".
const EXPOSURE: u32 = 30;

/// The tool that judges them. Fails where it is not installed: a check for which nobody looks at them is none.
pub fn analyze() -> Result<PathBuf> {
    paths::find_program("systemd-analyze").with_context(|| {
        format!(
            "there is no systemd-analyze to look at the units in {FOLDER}; install the package that has it (Debian's systemd: apt-get install systemd), \
             or build the package without looking at it: cargo xtask dist"
        )
    })
}

/// Fails where systemd, by that tool, has anything to complain of.
pub fn check(analyze: &Path, program: &Path) -> Result<()> {
    let put = |unit: &str| -> Result<PathBuf> {
        let from = paths::root().join(FOLDER).join(unit);
        let text = fs::read_to_string(&from).with_context(|| format!("reading {unit}"))?;
        let here = folder().join(unit);
        // It asks whether the program is there.
        fs::write(&here, text.replace(PROGRAM, &program.to_string_lossy()))
            .with_context(|| format!("writing {}", here.display()))?;
        Ok(here)
    };
    let services = SERVICES.map(put).into_iter().collect::<Result<Vec<_>>>()?;
    let sockets = SOCKETS.map(put).into_iter().collect::<Result<Vec<_>>>()?;
    let mut verify = Command::new(analyze);
    verify
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(&services)
        .args(&sockets);
    step("systemd-analyze verify", &mut verify)?;
    let mut security = Command::new(analyze);
    security
        .args(["security", "--no-pager", "--offline=yes"])
        .arg(format!("--threshold={EXPOSURE}"))
        .args(&services);
    step("systemd-analyze security", &mut security)?;
    for unit in services.iter().chain(&sockets) {
        fs::remove_file(unit).with_context(|| format!("removing {}", unit.display()))?;
    }
    Ok(())
}

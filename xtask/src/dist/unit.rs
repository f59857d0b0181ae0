//! The unit by which systemd starts the daemon, as systemd-analyze(1) judges it: whether it is one, and how exposed the machine is to it.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::folder;
use crate::{paths, steps::step};

/// The unit.
const UNIT: &str = "sanitizer/debian/gwp-race-fleet.service";
/// Where its program is on the machine of whoever installs the package.
const PROGRAM: &str = "/usr/bin/gwp-race";
/// How exposed it may be, in tenths, as systemd counts it: from 50 on that is "medium".
const EXPOSURE: u32 = 30;

/// Fails where systemd has anything to complain of. Where its tool is not installed nobody looks, which is told.
pub fn check(program: &Path) -> Result<()> {
    let Some(analyze) = paths::find_program("systemd-analyze") else {
        println!("    there is no systemd-analyze here: nobody looks at {UNIT}");
        return Ok(());
    };
    let unit = paths::root().join(UNIT);
    let text = fs::read_to_string(&unit).with_context(|| format!("reading {UNIT}"))?;
    // It asks whether the program is there.
    let here = folder().join("gwp-race-fleet.service");
    fs::write(&here, text.replace(PROGRAM, &program.to_string_lossy()))
        .with_context(|| format!("writing {}", here.display()))?;
    let mut verify = Command::new(&analyze);
    verify
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&here);
    step("systemd-analyze verify", &mut verify)?;
    let mut security = Command::new(&analyze);
    security
        .args(["security", "--no-pager", "--offline=yes"])
        .arg(format!("--threshold={EXPOSURE}"))
        .arg(&here);
    step("systemd-analyze security", &mut security)?;
    fs::remove_file(&here).with_context(|| format!("removing {}", here.display()))
}

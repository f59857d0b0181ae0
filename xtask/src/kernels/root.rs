//! What a virtual machine has instead of a disk: gwp-race, the trials as its first process, the programs to watch, this machine's systemd, and the
//! libraries that these need. All files are where they are here, so that paths in debug information hold.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{archive::Archive, libraries};
use crate::{
    paths,
    steps::{answer, cargo, step},
};

/// The package and the program with the trials.
const TESTS: &str = "gwp-race-tests";
const TRIALS: &str = "gwp-race-kernel-trials";
/// Programs of this machine that trials start.
const TOOLS: [&str; 2] = ["/usr/bin/setpriv", "/bin/sh"];
/// Where gwp-race is in the virtual machine.
pub const GWP_RACE: &str = "/usr/bin/gwp-race";

/// See the module.
pub struct Root {
    /// The archive.
    pub initramfs: PathBuf,
    /// The program with the trials, on this machine.
    pub trials: PathBuf,
}

/// Makes the archive.
pub fn build(directory: &Path, gwp_race: &Path) -> Result<Root> {
    let mut command = cargo();
    command.args(["build", "--package", TESTS, "--bin", TRIALS]);
    step("building the trials", &mut command)?;
    let trials = paths::target().join("debug").join(TRIALS);
    println!("==> building what is watched");
    let files = answer(Command::new(&trials).arg("files"));
    let files =
        files.context("the programs to watch could not be built; try `cargo xtask setup`")?;
    let mut here: BTreeSet<PathBuf> = files.lines().map(PathBuf::from).collect();
    here.extend(TOOLS.map(PathBuf::from));
    let mut archive = Archive::default();
    for (name, program) in [("/init", trials.as_path()), (GWP_RACE, gwp_race)] {
        let stripped = directory.join("stripped");
        let mut strip = Command::new("strip");
        strip
            .args(["--strip-debug", "-o"])
            .arg(&stripped)
            .arg(program);
        step(&format!("stripping {}", program.display()), &mut strip)?;
        archive.add(Path::new(name), &read(&stripped)?, true)?;
        here.extend(libraries::of(program)?);
        let _ = fs::remove_file(&stripped);
    }
    let needed: Vec<PathBuf> = here
        .iter()
        .map(|file| libraries::of(file))
        .collect::<Result<Vec<_>>>()?
        .concat();
    here.extend(needed);
    for file in &here {
        let mode = fs::metadata(file)
            .with_context(|| file.display().to_string())?
            .permissions()
            .mode();
        archive.add(file, &read(file)?, mode & 0o111 != 0)?;
    }
    let initramfs = directory.join("initramfs");
    fs::write(&initramfs, archive.finish()?)
        .with_context(|| format!("writing {}", initramfs.display()))?;
    Ok(Root { initramfs, trials })
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}

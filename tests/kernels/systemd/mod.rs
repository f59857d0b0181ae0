//! gwp-race in services of systemd, which is the machine's first process: what docs/compatibility.md says of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use gwp_race_tests::{Configuration, Program, compile};

pub mod boot;
pub mod confinement;
pub mod notify;
mod service;
pub mod stop;

/// The host's own.
const SYSTEMD: &str = "/lib/systemd/systemd";
const SYSTEMCTL: &str = "/usr/bin/systemctl";
/// What starts a service's program from systemd 255 on.
const EXECUTOR: &str = "/lib/systemd/systemd-executor";

/// The program of the services: no race.
const SERVER: Program = Program::new("conduct/service.c");

/// What a machine cannot have of it, because it is not here either.
pub fn lacks() -> Option<String> {
    let mut needed = [SYSTEMD, SYSTEMCTL].into_iter();
    let missing = needed.find(|file| !Path::new(file).is_file())?;
    Some(format!("there is no {missing} here"))
}

/// Builds what the trials watch; the files that these programs and systemd need.
pub fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if lacks().is_none() {
        let own = [SYSTEMD, SYSTEMCTL, EXECUTOR].map(PathBuf::from);
        files.extend(own.into_iter().filter(|file| file.is_file()));
        for program in [SERVER, SERVER.broken()] {
            files.extend(compile::files(&program, Configuration::USUAL)?);
        }
    }
    Ok(files)
}

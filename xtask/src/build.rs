//! `cargo xtask build`: the eBPF object, then gwp-race with the object inside.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    ebpf, paths, setup,
    steps::{cargo, step},
};

/// Builds both and returns the path of gwp-race.
pub fn run(release: bool) -> Result<PathBuf> {
    setup::run()?;
    let object = ebpf::build()?;
    let mut command = cargo();
    command
        .args(["build", "--package", "gwp-race"])
        .env_remove("GWP_RACE_EBPF_OBJECT");
    if release {
        command.arg("--release");
    }
    step("building gwp-race", &mut command)?;
    let binary = paths::target()
        .join(if release { "release" } else { "debug" })
        .join("gwp-race");
    println!(
        "    {} (the eBPF object inside: {})",
        binary.display(),
        object.display()
    );
    Ok(binary)
}

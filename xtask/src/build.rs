//! `cargo xtask build`: the eBPF object, then gwp-race with the object inside.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    ebpf, paths, setup,
    steps::{cargo, step},
};

/// Builds, beside a gwp-race that was built with optimizations, the one whose system calls fail when
/// a test wants them to.
pub fn faulty() -> Result<()> {
    let mut command = cargo();
    command
        .args(["build", "--release", "--package", "gwp-race"])
        .args(["--features", "fault-injection", "--bin", "gwp-race-faulty"])
        .env_remove("GWP_RACE_EBPF_OBJECT");
    step("building gwp-race with faults", &mut command)
}

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

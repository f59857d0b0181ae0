//! `cargo xtask build`: the eBPF object, then gwp-race with the object inside.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    ebpf, paths, setup,
    steps::{cargo, step},
};

/// What differs from the release in our own packages when they are tested: what they assert is checked, and they
/// are built faster: two parts of the library with its tests, which takes longest, keep two processors busy, and sixteen, as usual, take longer
/// altogether. What they depend on is the same, and is built once.
const CHECKED: [(&str, &str); 4] = [
    ("debug-assertions", "true"),
    ("overflow-checks", "true"),
    ("opt-level", "1"),
    ("codegen-units", "2"),
];
/// The packages that this concerns.
const OURS: [&str; 3] = ["gwp-race", "gwp-race-tests", "xtask"];

/// The arguments of a cargo that does something with what is tested.
pub fn checked(what: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = what.iter().map(|&word| word.to_owned()).collect();
    arguments.extend(["--release", "--features", "gwp-race/fault-injection"].map(str::to_owned));
    arguments.extend(
        OURS.into_iter()
            .flat_map(|package| checks(&format!(".package.{package}"))),
    );
    arguments
}

/// The arguments of a cargo by which the profile `release` is what [`CHECKED`] says; `whose`: all of it, or that of `.package.NAME`.
pub fn checks(whose: &str) -> Vec<String> {
    let setting = |(key, value)| {
        [
            "--config".to_owned(),
            format!("profile.release{whose}.{key}={value}"),
        ]
    };
    CHECKED.into_iter().flat_map(setting).collect()
}

/// Builds all tests and, beside a gwp-race that was built with optimizations, the one whose system calls fail when a test wants them to: at
/// once, or our packages would be compiled for the one and once more for the others, who want more of what they depend on.
pub fn tests() -> Result<()> {
    let mut command = cargo();
    command
        .args(checked(&["build", "--tests"]))
        .args(["--bin", "gwp-race-faulty"])
        .env_remove("GWP_RACE_EBPF_OBJECT");
    step("building the tests, and gwp-race with faults", &mut command)
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

//! `cargo xtask ci`: what has to hold before a change lands.

use std::process::Command;

use anyhow::Result;

use crate::{ebpf, paths, steps::step};

/// Runs `.ci/run`, which is what continuous integration runs, and before it the lints of the
/// gates where their compiler has any.
pub fn run() -> Result<()> {
    if let Some(mut clippy) = ebpf::clippy_command() {
        step("lints of the gates", &mut clippy)?;
    }
    step(
        "continuous integration",
        &mut Command::new(paths::root().join(".ci/run")),
    )
}

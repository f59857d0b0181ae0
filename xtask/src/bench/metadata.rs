//! `cargo xtask bench metadata`: loading and searching PC-keyed metadata.

use anyhow::Result;

use super::machine;
use crate::build;
use crate::steps::{cargo, step};

/// Runs the benchmark of the metadata's reader.
pub fn run() -> Result<()> {
    // The example is of the same package, which is not built without gates.
    build::run(true)?;
    for line in machine::description() {
        println!("{line}");
    }
    let mut command = cargo();
    command.args([
        "run",
        "--release",
        "--package",
        "gwp-race",
        "--example",
        "bench_pcmeta",
    ]);
    step("measuring the metadata's reader", &mut command)
}

//! How much private work the program `increments` is to do for a time between two accesses.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::throughput::turns;

/// Hashes that a turn of the calibration makes.
const HASHES: u32 = 300;
/// Its threads, and the seconds that it runs.
const THREADS: f64 = 2.0;
const SECONDS: f64 = 2.0;

/// How long one hash of the program takes on this machine.
pub fn seconds_of_a_hash(program: &Path) -> Result<f64> {
    let arguments = [SECONDS.to_string(), HASHES.to_string()];
    let turns = turns(Command::new(program).args(arguments))?;
    Ok(THREADS * SECONDS / (turns * f64::from(HASHES)))
}

/// So many of them take this time; the program's argument.
pub fn hashes(gap_s: f64, hash_s: f64) -> String {
    (gap_s / hash_s).round().to_string()
}

//! Throughput, measured in pairs: the machine's speed changes from minute to minute, but little
//! between two runs that follow each other.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::steps::shown;

/// Runs the program and returns how many turns it says it has made.
pub fn turns(command: &mut Command) -> Result<f64> {
    let output = command.stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let turns = text
        .lines()
        .find_map(|line| line.strip_prefix("turns ")?.parse().ok());
    turns.with_context(|| format!("{} printed no turns: {text:?}", shown(command)))
}

/// Percent of the first command's turns that the second one does not make. Even pairs begin with the
/// second.
pub fn loss(plain: &mut Command, watched: &mut Command, pair: usize) -> Result<f64> {
    let (plain, watched) = if pair.is_multiple_of(2) {
        let watched = turns(watched)?;
        (turns(plain)?, watched)
    } else {
        (turns(plain)?, turns(watched)?)
    };
    Ok((plain - watched) / plain * 100.0)
}

//! Throughput, as programs tell of it.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::pair::in_turns;
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

/// Percent of the first command's turns that the second one does not make.
pub fn loss(plain: &mut Command, watched: &mut Command, pair: usize) -> Result<f64> {
    let (plain, watched) = in_turns(pair, || turns(plain), || turns(watched))?;
    Ok((plain - watched) / plain * 100.0)
}

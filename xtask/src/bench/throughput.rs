//! Throughput, as programs tell of it.

use std::process::Command;

use anyhow::Result;

use super::{
    figure::{figure, printed},
    pair::in_turns,
};

/// Runs the program and returns how many turns it says it has made.
pub fn turns(command: &mut Command) -> Result<f64> {
    figure(&printed(command)?, "turns")
}

/// Percent of the first command's turns that the second one does not make.
pub fn loss(plain: &mut Command, watched: &mut Command, pair: usize) -> Result<f64> {
    let (plain, watched) = in_turns(pair, || turns(plain), || turns(watched))?;
    Ok(lost(plain, watched))
}

/// Percent of the turns that a plain run makes and a watched one does not.
pub fn lost(plain: f64, watched: f64) -> f64 {
    (plain - watched) / plain * 100.0
}

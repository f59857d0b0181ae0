//! What programs print of themselves: lines of a name and a number.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::steps::shown;

/// The number behind this name.
pub fn figure(text: &str, name: &str) -> Result<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("no {name} in what the program printed: {text:?}"))
}

/// Runs a command, which must succeed, and returns what it prints.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {said}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a name is found as a whole, and its lack is told.
    #[test]
    fn figures() {
        let text = "turns_all 7\nturns 12\n";
        assert!((figure(text, "turns").unwrap() - 12.0).abs() < 1e-9);
        assert!(figure(text, "turn").is_err());
    }
}

//! Pictures, drawn by gnuplot.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Draws what a script of gnuplot says into a PNG. Data may stand in the script, in blocks.
pub fn draw(script: &str, picture: &Path) -> Result<()> {
    let mut gnuplot = Command::new("gnuplot")
        .stdin(Stdio::piped())
        .spawn()
        .context("no picture could be drawn; install gnuplot: apt-get install gnuplot-nox")?;
    gnuplot.stdin.take().context("gnuplot's input")?.write_all(
        format!(
            "set terminal pngcairo size 900,500\nset output '{}'\n{script}",
            picture.display()
        )
        .as_bytes(),
    )?;
    let status = gnuplot.wait()?;
    if !status.success() {
        bail!("gnuplot failed ({status})");
    }
    println!("==> {}", picture.display());
    Ok(())
}

//! Pictures, drawn by gnuplot.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{paths, setup};

/// Draws what a script of gnuplot says into a PNG, and installs that if it is missing. Data may stand in the script, in blocks.
pub fn draw(script: &str, picture: &Path) -> Result<()> {
    const PROGRAM: &str = "gnuplot";
    if paths::find_program(PROGRAM).is_none() {
        setup::have(&["gnuplot-nox"])?;
    }
    let mut gnuplot = Command::new(PROGRAM)
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

//! `cargo xtask soak`: a program under a mixed load is watched for some minutes, and what gwp-race
//! used meanwhile is drawn.

use std::{fs, path::Path};

use anyhow::Result;

use crate::{
    build, paths, plot,
    steps::{step, testing_cargo},
};

#[derive(clap::Args)]
pub struct Options {
    /// How long to watch.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

/// Runs the test `soak`, and draws memory and descriptors over time.
pub fn run(options: &Options) -> Result<()> {
    let binary = build::run(true)?;
    let directory = paths::target().join("soak");
    fs::create_dir_all(&directory)?;
    let (csv, png) = (directory.join("soak.csv"), directory.join("soak.png"));
    let mut command = testing_cargo();
    command.args(["test", "--package", "gwp-race-tests", "--test", "e2e", "--"]);
    command.args(["soak::", "--nocapture"]);
    command.env("GWP_RACE_BIN", binary);
    command.env("GWP_RACE_SOAK_SECONDS", (options.minutes * 60).to_string());
    command.env("GWP_RACE_SOAK_CSV", &csv);
    step("watching a mixed load", &mut command)?;
    println!("==> {}", csv.display());
    draw(&csv, &png)
}

fn draw(csv: &Path, png: &Path) -> Result<()> {
    let script = format!(
        "set datafile separator ','
set key autotitle columnhead left top
set xlabel 'seconds'
set ylabel 'KiB resident, all processes of gwp-race'
set y2label 'open descriptors'
set yrange [0:*]
set y2range [0:*]
set ytics nomirror
set y2tics
set grid
plot '{}' using 1:3 with lines title 'resident memory', '' using 1:4 axes x1y2 with lines title 'descriptors'
",
        csv.display()
    );
    plot::draw(&script, png)
}

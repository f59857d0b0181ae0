//! `cargo xtask browser`: the pages about a store in a real browser.

use anyhow::Result;

use crate::{
    build, paths, setup,
    steps::{step, testing_cargo},
};

/// The browser, and what drives it.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

#[derive(clap::Args)]
pub struct Options {
    /// Put pictures of the pages into docs.
    #[arg(long)]
    pictures: bool,
}

/// Installs the browser if it is missing, builds what is needed, and runs the tests one after the other.
pub fn run(options: &Options) -> Result<()> {
    let binary = build::run(true)?;
    setup::have(&PACKAGES)?;
    let mut command = testing_cargo();
    command.args(["test", "--package", "gwp-race-tests", "--test", "browser"]);
    command.args(["--features", "browser", "--", "--test-threads", "1"]);
    command.env("GWP_RACE_BIN", binary);
    if options.pictures {
        command.env("GWP_RACE_PICTURES", paths::root().join("docs"));
    }
    step("looking at the pages", &mut command)
}

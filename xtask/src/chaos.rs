//! `cargo xtask chaos`: gwp-race is killed as often as one likes, and its targets examined.

use anyhow::Result;

use crate::{
    build,
    steps::{step, testing_cargo},
};

#[derive(clap::Args)]
pub struct Options {
    /// How often to kill gwp-race: a third after `attach`, the others after `run`; besides, a third as often a `fleet` or a part of it, at the beginnings and ends of leases.
    #[arg(long, default_value_t = 300)]
    kills: usize,
    /// Seed of the random instants.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds what is needed, and runs the tests of survival one after the other.
pub fn run(options: &Options) -> Result<()> {
    let binary = build::run(true)?;
    let mut command = testing_cargo();
    command.args(["test", "--package", "gwp-race-tests", "--test", "e2e", "--"]);
    command.args(["survival::", "fleet::nothing_is_held_when_they_die"]);
    command.args(["--nocapture", "--test-threads", "1"]);
    command.env("GWP_RACE_BIN", binary);
    command.env("GWP_RACE_KILLS", options.kills.to_string());
    command.env("GWP_RACE_SEED", options.seed.to_string());
    step("killing gwp-race", &mut command)
}

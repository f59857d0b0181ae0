//! gwp-race is killed at random instants, and its target examined: the end-to-end tests of the same name, on this kernel.

use anyhow::{Context as _, Result, ensure};
use gwp_race_tests::chaos::{self, Way};

use crate::kernel::Kernel;

/// How many kills there are for each kind.
const KILLS: &str = "GWP_RACE_KILLS";
const SEED: u64 = 1;

fn kill(ways: &[Way]) -> Result<String> {
    let kills = std::env::var(KILLS).context(KILLS)?;
    let tally = chaos::unleash(ways, kills.parse().context(KILLS)?, SEED)?;
    eprintln!("{tally}");
    ensure!(tally.failures.is_empty(), "{}", tally.failures.join("; "));
    ensure!(
        tally.ended_by_machine == 0,
        "{} targets ended by lost traps",
        tally.ended_by_machine
    );
    ensure!(
        tally.sampling() > 0,
        "none of {} kills came while it was sampling, which proves nothing: is the machine too slow?",
        tally.kills()
    );
    Ok(format!(
        "{} kills, {} of them while sampling: all live on, unstopped",
        tally.kills(),
        tally.sampling()
    ))
}

/// Of programs that gwp-race has started, with each way of stopping a thread.
pub fn run(_: &Kernel) -> Result<String> {
    kill(&[Way::Run, Way::RunHandled])
}

/// Of programs to which it was attached.
pub fn attach(_: &Kernel) -> Result<String> {
    kill(&[Way::Attach])
}

/// Where it has no gates.
pub fn without_ebpf(_: &Kernel) -> Result<String> {
    kill(&[Way::RunWithoutRights])
}

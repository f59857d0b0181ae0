//! The target survives the death of gwp-race at any instant: alive, unstopped, untraced, unarmed,
//! and at work. `cargo xtask chaos` runs these tests with other numbers.

use gwp_race_tests::{
    binary,
    chaos::{self, Way},
};

/// How often gwp-race is killed, over all tests, unless `GWP_RACE_KILLS` says otherwise.
const KILLS: usize = 150;
/// The same in the full run.
const KILLS_IN_FULL: usize = 1000;
/// Of so many kills, one at least is to come while probes of the kernel stand, where there are any.
const PROBED: usize = 20;
/// Of so many kills, one may coincide with a trap that the virtual machine has spoilt.
const RARE: usize = 50;
/// What the random instants begin with, unless `GWP_RACE_SEED` says otherwise.
const SEED: u64 = 1;

/// Kills a share of all of them in these ways.
fn kill_and_examine(ways: &[Way], share: fn(usize) -> usize) {
    let usual = if binary::full() { KILLS_IN_FULL } else { KILLS };
    let kills = share(chaos::number("GWP_RACE_KILLS").unwrap_or(usual));
    let seed = chaos::number("GWP_RACE_SEED").unwrap_or(SEED);
    let tally = chaos::unleash(ways, kills, seed).unwrap();
    println!("seed {seed}\n{tally}");
    assert_eq!(tally.kills(), kills);
    assert_eq!(tally.failures, [""; 0]);
    let by_machine = tally.ended_by_machine;
    assert!(
        by_machine <= 1 + kills / RARE,
        "{by_machine} of {kills} targets ended by the machine's lost traps: too many to be luck"
    );
    assert!(
        tally.sampling() * 2 >= kills,
        "only {} of {kills} kills fell into sampling",
        tally.sampling()
    );
    let has_gates = !ways.contains(&Way::RunWithoutRights);
    assert!(
        !has_gates || tally.probed >= kills / PROBED,
        "only {} of {kills} kills came while probes stood",
        tally.probed
    );
}

/// Check that processes survive the gwp-races that were attached to them.
#[test]
fn attached_targets_survive() {
    kill_and_examine(&[Way::Attach], |kills| kills / 3);
}

/// Check that programs survive the gwp-races that have started them, and end by themselves.
#[test]
fn started_targets_survive() {
    kill_and_examine(&[Way::Run, Way::RunHandled], |kills| {
        kills - kills / 3 - kills / 5
    });
}

/// Check that the same holds where eBPF is not permitted.
#[test]
fn targets_survive_without_ebpf() {
    kill_and_examine(&[Way::RunWithoutRights], |kills| kills / 5);
}

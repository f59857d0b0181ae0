//! What one machine has learned of a build is known to another one.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use gwp_race_tests::{binary::gwp_race, children::Guarded, machine::Machine};
use nix::sys::signal::{Signal, kill};

use super::{FEW, LONG, PATIENCE, Scratch, agent, built, until};
use crate::collector::Collector;

/// Leases in which a machine that was told nothing remembers nothing.
const LEASES: usize = 3;

/// A machine: a daemon with an agent that sends to a collector, and one process of the program, which accesses memory or does not.
struct Host {
    scratch: Scratch,
    process: Guarded,
}

impl Host {
    fn new(program: &Path, role: &[&str]) -> Self {
        let scratch = Scratch::new();
        let program = scratch.place(program, "roles");
        let mut command = Command::new(program);
        command.args([LONG, FEW]).args(role);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = Guarded::new(command.spawn().unwrap());
        Self { scratch, process }
    }

    /// Of each lease that is over, functions of which something was remembered when it began.
    fn remembered(&self, log: &str) -> Vec<u64> {
        let begins = format!("gwp-race: lease pid={} ", self.process.pid());
        let log = self.scratch.log(log);
        let leases = log.lines().filter(|line| line.starts_with(&begins));
        let remembered = leases.map(|line| {
            let (_, rest) = line.split_once(" remembered=").unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        });
        remembered.collect()
    }

    /// Whether leases of a daemon come to this.
    fn watched_until(&self, log: &str, is_so: impl Fn(&[u64]) -> bool) -> bool {
        let mut daemon = self.scratch.daemon(log);
        let is_so = until(|| is_so(&self.remembered(log)));
        kill(daemon.pid(), Signal::SIGTERM).unwrap();
        let ended = daemon.wait(PATIENCE).unwrap();
        assert!(ended.success(), "{ended}: {}", self.scratch.log(log));
        is_so
    }
}

/// Check that a machine on which nothing can be learned of a build, since its process accesses no memory, remembers nothing of it lease after lease, and remembers what another machine has learned of it once it asks the collector to which that one has told it.
#[test]
fn what_one_machine_has_learned_is_known_to_another() {
    let _machine = Machine::shared();
    let program = built("conduct/roles.c");
    let learns = Host::new(&program, &[]);
    let hears = Host::new(&program, &["spins"]);

    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(gwp_race());
    let store = format!("sqlite:{}/races.db", folder.path().display());
    command.args(["races", "serve", "--hints-age", "0s", "--store", &store]);
    let token = agent::token_in(folder.path());
    command.arg("--token-file").arg(token);
    let collector = Collector::by(command);
    let address = format!("http://{}", collector.address);

    let knows_nothing =
        |leases: &[u64]| leases.len() >= LEASES || leases.iter().any(|&functions| functions > 0);
    hears.watched_until("alone", knows_nothing);
    let before = hears.remembered("alone");
    assert!(
        before.len() >= LEASES && before.iter().all(|&functions| functions == 0),
        "{}",
        hears.scratch.log("alone")
    );

    let mut tells = agent::start(&learns.scratch, &address, None);
    let knows = |leases: &[u64]| leases.iter().any(|&functions| functions > 0);
    let has_learned = learns.watched_until("log", knows);
    assert!(has_learned, "{}", learns.scratch.log("log"));
    // The daemon has handed over what it has learned when it ended.
    agent::sent(&learns.scratch);
    agent::end(&learns.scratch, &mut tells);

    let mut asks = agent::start(&hears.scratch, &address, None);
    let has_heard = hears.watched_until("log", knows);
    println!(
        "functions that were remembered: {before:?} by itself, {:?} when it was told",
        hears.remembered("log")
    );
    assert!(
        has_heard,
        "{}\n{}",
        hears.scratch.log("log"),
        hears.scratch.log("agent.log")
    );
    agent::end(&hears.scratch, &mut asks);
}

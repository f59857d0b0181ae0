//! What was learned on one machine, told to a real collector, and heard of on another one. Both machines are this one, with daemons and agents that have nothing in common but the collector.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use gwp_race_tests::{binary::gwp_race, children::Guarded, machine::Machine};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::{FEW, LONG, PATIENCE, Scratch, agent, built, of, until};
use crate::collector::Collector;

/// Functions of which the program executes twenty on the first machine, and one on the others, with those that call them.
const MANY: u64 = 8;
/// Leases after which a machine that nobody tells anything would know more if it could.
const ENOUGH: usize = 3;

/// A machine with a program.
struct Host {
    process: Guarded,
    daemon: Guarded,
    agent: Guarded,
    scratch: Scratch,
}

impl Host {
    /// One that has learned nothing yet, where the program is called with these words.
    fn start(program: &Path, words: &[&str], collector: &str, learn: &str) -> Self {
        let scratch = Scratch::new();
        let program = scratch.place(program, "tasks");
        let config = scratch.path("fleet.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(config, format!("{text}\n[learn]\n{learn}\n")).unwrap();
        let agent = agent::start(&scratch, collector, None);
        let daemon = scratch.daemon("log");
        let mut command = Command::new(program);
        command.args([LONG, FEW]).args(words).stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        Self {
            process: Guarded::new(process),
            daemon,
            agent,
            scratch,
        }
    }

    /// Of how many functions its tracer is told what was learned before, in the lease that goes on.
    fn remembered(&self) -> u64 {
        let status = self.scratch.status();
        let known = of(&status, self.process.pid());
        let lease = known.map(|known| &known["lease"]["remembered"]);
        lease.and_then(Value::as_u64).unwrap_or(0)
    }

    /// The same of each lease that is over, the first first.
    fn audited(&self) -> Vec<u64> {
        let begins = format!("gwp-race: lease pid={} ", self.process.pid());
        let log = self.scratch.log("log");
        let lines = log.lines().filter(|line| line.starts_with(&begins));
        let told = lines.map(|line| {
            let (_, rest) = line.split_once(" remembered=").unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        });
        told.collect()
    }

    /// Ends daemon and agent when all is sent that was learned.
    fn end(mut self) {
        kill(self.daemon.pid(), Signal::SIGTERM).unwrap();
        let ended = self.daemon.wait(PATIENCE).unwrap();
        assert!(ended.success(), "{ended}: {}", self.scratch.log("log"));
        let status = agent::sent(&self.scratch);
        assert_eq!(status["refused"], 0, "{status:#}");
        agent::end(&self.scratch, &mut self.agent);
        assert!(self.process.ended().unwrap().is_none());
    }
}

/// Check that what a machine has learned of a program is sent to the collector, and that another one, which begins with an empty ledger, hears of it: it remembers functions that its own process of the same build has never executed. One that
/// is not to share anything begins with nothing, and knows nothing but its own meanwhile.
#[test]
fn machines_learn_of_each_other() {
    let _machine = Machine::shared();
    let program = built("conduct/two_tasks.c");
    let folder = tempfile::tempdir().unwrap();
    let mut serve = Command::new(gwp_race());
    serve.args(["races", "serve", "--hints-age", "0s", "--store"]);
    serve.arg(format!("sqlite:{}/races.db", folder.path().display()));
    serve
        .arg("--token-file")
        .arg(agent::token_in(folder.path()));
    let collector = Collector::by(serve);
    let address = format!("http://{}", collector.address);

    let first = Host::start(&program, &[], &address, "share = true");
    let has_learned = until(|| first.remembered() >= MANY);
    assert!(has_learned, "{}", first.scratch.log("log"));
    assert_eq!(first.audited()[0], 0);
    first.end();

    let told = Host::start(&program, &["one"], &address, "share = true");
    let alone = Host::start(&program, &["one"], &address, "share = false");
    let is_told = until(|| told.remembered() >= MANY);
    assert!(is_told, "{}", told.scratch.log("log"));
    assert!(until(|| alone.audited().len() >= ENOUGH));
    let own = alone.audited();
    println!("told: {:?}, alone: {own:?}", told.audited());
    assert_eq!(own[0], 0);
    assert!(own.iter().all(|&functions| functions < MANY), "{own:?}");
    told.end();
    alone.end();
}

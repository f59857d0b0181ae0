//! What one machine has learned of a build is known to another one.

use std::{path::Path, process::Command};

use gwp_race_tests::{binary::gwp_race, children::Guarded, machine::Machine};

use super::{FEW, Scratch, agent, audited, built, busy, until};
use crate::collector::Collector;

/// Leases in which a machine hears nothing of others that it does not ask.
const LEASES: usize = 2;

/// A machine: a daemon, with an agent or without, and one process of the program.
struct Host {
    scratch: Scratch,
    process: Guarded,
}

impl Host {
    fn new(program: &Path) -> Self {
        let scratch = Scratch::new();
        let program = scratch.place(program, "program");
        let process = busy(&program, FEW);
        Self { scratch, process }
    }

    /// Of each lease that is over, functions of which something was remembered when it began.
    fn remembered(&self, log: &str) -> Vec<u64> {
        let log = self.scratch.log(log);
        let leases = audited(&log, self.process.pid());
        let remembered = leases.map(|line| {
            let (_, rest) = line.split_once(" remembered=").unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        });
        remembered.collect()
    }

    /// Functions of which other machines have told something, as the ledger has them (`migrations/ledger`).
    fn heard(&self) -> u64 {
        const COUNT: &str = "import sqlite3, sys\n\
            ledger = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
            print(ledger.execute('SELECT count(*) FROM hint JOIN hinted ON module = id').fetchone()[0])";
        let mut python = Command::new("python3");
        python.args(["-c", COUNT]);
        let output = python.arg(self.scratch.path("lib/ledger.db")).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let count = String::from_utf8_lossy(&output.stdout);
        count.trim().parse().unwrap()
    }

    /// Has a daemon watch until leases come to this; whether they do.
    fn watched_until(&self, log: &str, is_so: impl Fn(&[u64]) -> bool) -> bool {
        let mut daemon = self.scratch.daemon(log);
        let is_so = until(|| is_so(&self.remembered(log)));
        self.scratch.end(&mut daemon, log);
        is_so
    }
}

/// Check that what a machine has told a collector is in the ledger of another one that asks there, which had nothing of it before, and that leases of that one begin with it.
#[test]
fn what_one_machine_has_learned_is_known_to_another() {
    let _machine = Machine::shared();
    let program = built("silent/mutex.c");
    let [learns, hears] = [(); 2].map(|()| Host::new(&program));

    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(gwp_race());
    let store = format!("sqlite:{}/races.db", folder.path().display());
    command.args(["races", "serve", "--hints-age", "0s", "--store", &store]);
    let token = agent::token_in(folder.path());
    command.arg("--token-file").arg(token);
    let collector = Collector::by(command);
    let address = format!("http://{}", collector.address);

    let mut tells = agent::start(&learns.scratch, &address, None);
    let knows = |leases: &[u64]| leases.iter().any(|&functions| functions > 0);
    let has_learned = learns.watched_until("log", knows);
    assert!(has_learned, "{}", learns.scratch.log("log"));
    // The daemon has handed over what it has learned when it ended.
    agent::sent(&learns.scratch);
    agent::end(&learns.scratch, &mut tells);
    assert_eq!(learns.heard(), 0);

    // Who has no agent asks nobody.
    let is_enough = |leases: &[u64]| leases.len() >= LEASES;
    assert!(hears.watched_until("alone", is_enough));
    assert_eq!(hears.heard(), 0);
    let mut asks = agent::start(&hears.scratch, &address, None);
    let has_heard =
        hears.watched_until("log", |leases| leases.len() >= LEASES && hears.heard() > 0);
    println!(
        "functions of which others have told: {}; that leases remember: {:?} alone, {:?} now",
        hears.heard(),
        hears.remembered("alone"),
        hears.remembered("log")
    );
    let logs = ["log", "agent.log"].map(|log| hears.scratch.log(log));
    assert!(has_heard && knows(&hears.remembered("log")), "{logs:?}");
    agent::end(&hears.scratch, &mut asks);
}

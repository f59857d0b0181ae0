//! Who reads the headers of all files: what it may, and what becomes of files that get the better of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gwp_race_tests::{
    Program,
    binary::gwp_race_faulty,
    children::{Guarded, status_field},
    machine::Machine,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::{Configuration, FEW, Scratch, built, busy, compile, of, until};

const SOURCE: &str = "silent/mutex.c";
const READER: &str = "gwp-race-reader";
/// The thread that looks at processes.
const LOOKS: &str = "looks";
/// A file is tried so often.
const TRIES: usize = 3;

/// Check that files which end whoever reads their headers, or keep him waiting, are tried so often and no more, and that this is told once; that only programs of theirs are left alone for that, and that the dry run says why; that whoever reads has no rights and nothing
/// open, and goes on with the files of others.
#[test]
fn hostile_headers_cost_their_own_programs_only() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    // The build ids are "misdeed crash" and "misdeed hang", which a gwp-race for tests does where such a file is read.
    let crashes = hostile(&["-Wl,--build-id=0x6d697364656564206372617368"]);
    let hangs = hostile(&["-Wl,--build-id=0x6d6973646565642068616e67"]);
    let crashes = scratch.place(&crashes, "crashes");
    let hangs = scratch.place(&hangs, "hangs");
    let quiet = scratch.place(&built(SOURCE), "quiet");
    // Each is a try, and there is one more of them.
    let mut left: Vec<_> = (0..=TRIES).map(|_| busy(&crashes, FEW)).collect();
    left.push(busy(&hangs, FEW));
    for process in &left {
        // It matters what they execute, not what they do.
        kill(process.pid(), Signal::SIGSTOP).unwrap();
    }
    let quiet = busy(&quiet, FEW);
    let mut daemon = scratch.start(faulty(&scratch, &[]), "log");
    let leases = |status: &Value| of(status, quiet.pid()).and_then(|one| one["leases"].as_u64());
    let is_leased = until(|| leases(&scratch.status()) > Some(0));
    assert!(is_leased, "{}", scratch.log("log"));
    let told = "/crashes carries metadata is not known";
    let is_told = until(|| scratch.log("log").contains(told));
    let log = scratch.log("log");
    assert!(is_told && log.contains("signal 11"), "{log}");

    let dry = faulty(&scratch, &["--dry-run", "--format", "json"]).output();
    let dry = String::from_utf8(dry.unwrap().stdout).unwrap();
    let mut lines: Vec<Value> = Vec::new();
    for line in dry.lines() {
        lines.push(serde_json::from_str(line).unwrap());
    }
    let status = scratch.status();
    for process in &left {
        let pid = process.pid();
        assert!(of(&status, pid).is_none(), "{status:#}");
        let line = lines.iter().find(|line| line["pid"] == pid.as_raw());
        let line = line.expect("it is not listed");
        assert_eq!(line["decided_by"], "unreadable", "{line:#}");
        assert!(line["reason"].as_str().unwrap().contains("its end"));
    }
    drop(left);

    // Nobody tries these files any more.
    let one = found(&scratch, "one");
    let reader = reader_below(daemon.pid()).expect("nobody reads");
    has_no_rights(reader);
    let other = found(&scratch, "other");
    let log = scratch.log("log");
    assert_eq!(reader_below(daemon.pid()), Some(reader), "{log}");
    let log = scratch.end(&mut daemon, "log");
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(log.matches(told).count(), 1, "{log}");
    let state = || status_field(reader, "State");
    assert!(until(
        || state().is_none_or(|state| state.starts_with(['Z', 'X']))
    ));
    for mut process in [quiet, one, other] {
        assert!(process.ended().unwrap().is_none());
    }
}

fn hostile(flags: &'static [&'static str]) -> PathBuf {
    let program = Program::new(SOURCE).flags(flags);
    compile::program(&program, Configuration::USUAL).unwrap()
}

/// A gwp-race for tests.
fn faulty(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new(gwp_race_faulty());
    command.args(scratch.fleet(words).get_args());
    command.stdin(Stdio::null());
    command
}

/// A process of a new file that the daemon has found.
fn found(scratch: &Scratch, name: &str) -> Guarded {
    let process = busy(&scratch.place(&built(SOURCE), name), FEW);
    let is_found = until(|| of(&scratch.status(), process.pid()).is_some());
    assert!(is_found, "{}", scratch.log("log"));
    process
}

/// The reader that the thread has which looks at processes. Another one, for debug information, has the same name.
fn reader_below(daemon: Pid) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{daemon}/task")).unwrap();
    let folders = threads.map(|thread| thread.unwrap().path());
    let text = |folder: &Path, name| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let looks = folders.filter(|folder| text(folder, "comm").trim_end() == LOOKS);
    let children: String = looks.map(|folder| text(&folder, "children")).collect();
    let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
    let mut pids = pids.map(Pid::from_raw);
    pids.find(|&pid| status_field(pid, "Name").as_deref() == Some(READER))
}

fn has_no_rights(reader: Pid) {
    let field = |name| status_field(reader, name);
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(capabilities).as_deref(), Some("0000000000000000"));
    }
    assert_eq!(field("NoNewPrivs").as_deref(), Some("1"));
    assert_eq!(field("Seccomp").as_deref(), Some("2"));
    assert_eq!(field("Threads").as_deref(), Some("1"));
    // A file is open while its headers are read.
    let has_nothing_open = until(|| {
        let mut open = fs::read_dir(format!("/proc/{reader}/fd")).unwrap();
        open.all(|entry| {
            let link = fs::read_link(entry.unwrap().path()).unwrap_or_default();
            let link = link.to_string_lossy();
            link == "/dev/null" || link.starts_with("socket:")
        })
    });
    assert!(has_nothing_open, "it keeps a file open");
}

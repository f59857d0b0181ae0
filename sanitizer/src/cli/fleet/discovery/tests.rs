//! Real processes that come and go.

mod hangs;
mod shortage;

use std::{path::Path, process::Command};

use super::*;
use crate::cli::fleet::config::Config;
use crate::reader::testing::header_reader;
use crate::tracee::testing::{Child, compile};

const PATIENCE: Duration = Duration::from_secs(60);
const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";
const WAITS: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main() { puts(\"ready\"); fflush(stdout); pause(); }";

/// Turns until all have been looked at that can be by then: what has happened.
fn settled(discovery: &mut Discovery, now: Instant) -> Vec<Change> {
    let deadline = Instant::now() + PATIENCE;
    let mut changes = Vec::new();
    loop {
        changes.extend(discovery.turn(now).unwrap());
        if discovery.looks.waiting() == 0 {
            return changes;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Turns until something has happened.
fn until<T>(discovery: &mut Discovery, now: Instant, wanted: impl Fn(&Change) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let changes = discovery.turn(now).unwrap();
        if let Some(found) = changes.iter().find_map(&wanted) {
            return found;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn began(pid: u32) -> impl Fn(&Change) -> Option<Found> {
    move |change| match change {
        Change::Began(found) if found.pid == pid => Some(Found::clone(found)),
        _ => None,
    }
}

fn ended(pid: u32) -> impl Fn(&Change) -> Option<Option<Status>> {
    move |change| match change {
        Change::Ended { pid: ended, status } if *ended == pid => Some(*status),
        _ => None,
    }
}

fn id(child: &Child) -> u32 {
    child.pid().as_raw().cast_unsigned()
}

/// Check that a process with metadata is told of as it begins, that its end is, with how it has ended, and that one without is neither; where the kernel may not be asked,
/// by looking at all of them.
#[test]
fn who_comes_and_goes() {
    let begin = Instant::now();
    for asks_kernel in [true, false] {
        let mut discovery = Discovery::new(Rules::default(), header_reader);
        if !asks_kernel {
            discovery.kernel = None;
        } else if discovery.refusal().is_some() {
            continue;
        }
        let before = Child::run(WAITS, &[METADATA]);
        before.wait_for_line("ready");
        let first = settled(&mut discovery, begin);
        assert!(
            first
                .iter()
                .any(|change| began(id(&before))(change).is_some())
        );
        let later = Child::run(WAITS, &[METADATA]);
        let without = Child::run(WAITS, &[]);
        for child in [&later, &without] {
            child.wait_for_line("ready");
        }
        let now = if asks_kernel {
            begin
        } else {
            begin + RECONCILE
        };
        until(&mut discovery, now, began(id(&later)));
        assert!(!discovery.held().any(|pid| pid == id(&without)));
        for child in [&before, &later] {
            nix::sys::signal::kill(child.pid(), nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        let pid = id(&later);
        drop(later);
        let now = if asks_kernel {
            begin
        } else {
            begin + 2 * RECONCILE
        };
        let status = until(&mut discovery, now, ended(pid));
        assert_eq!(status, asks_kernel.then_some(Status::Killed(9)));
    }
}

/// Check that what was lost is found by looking at all, and that a program which was found to have nothing is told of no more, but found when it executes one
/// that has.
#[test]
fn what_is_lost_is_found() {
    let begin = Instant::now();
    let mut discovery = Discovery::new(Rules::default(), header_reader);
    if discovery.refusal().is_some() {
        return;
    }
    settled(&mut discovery, begin);
    let lost = Child::run(WAITS, &[METADATA]);
    lost.wait_for_line("ready");
    let kernel = discovery.kernel.as_mut().unwrap();
    while kernel.next_news().is_some() {}
    discovery.was_lost = true;
    let soon = settled(&mut discovery, begin + CATCH_UP / 2);
    assert!(!soon.iter().any(|change| began(id(&lost))(change).is_some()));
    until(&mut discovery, begin + CATCH_UP, began(id(&lost)));

    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "covered", WAITS, &[METADATA]);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "echo begun; read x; exec ./covered"])
        .current_dir(dir.path());
    let mut child = Child::start(dir, command);
    child.wait_for_line("begun");
    settled(&mut discovery, begin + CATCH_UP);
    assert!(!discovery.held().any(|pid| pid == id(&child)));
    child.send_line("");
    child.wait_for_line("ready");
    until(&mut discovery, begin + CATCH_UP, began(id(&child)));
    // Others execute it, too.
    let dropped = discovery.kernel.as_ref().unwrap();
    dropped.dropped();
    assert!(
        Command::new("/bin/sh")
            .args(["-c", ":"])
            .status()
            .unwrap()
            .success()
    );
    assert!(dropped.dropped() > 0);
}

/// Check that it is told how a process has ended also where nobody has told of its beginning: it was there before.
#[test]
fn ends_of_who_was_there_before() {
    let begin = Instant::now();
    let mut program = Child::run(WAITS, &[METADATA]);
    program.wait_for_line("ready");
    let pid = id(&program);
    let mut discovery = Discovery::new(Rules::default(), header_reader);
    if discovery.refusal().is_some() {
        return;
    }
    until(&mut discovery, begin, began(pid));
    nix::sys::signal::kill(program.pid(), nix::sys::signal::Signal::SIGKILL).unwrap();
    program.reap();
    let status = until(&mut discovery, begin, ended(pid));
    assert_eq!(status, Some(Status::Killed(9)));
}

/// Check that whoever executes another program untold, or becomes one that the rules leave alone, is left alone from the next look at all on, and
/// that one who stays what he was is not.
#[test]
fn who_becomes_another_one() {
    const BECOMES: &str = r#"
        #include <stdio.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        int main(void) {
            char line[8];
            setvbuf(stdin, NULL, _IONBF, 0);
            puts("ready");
            fflush(stdout);
            while (fgets(line, sizeof line, stdin)) {
                if (*line == 'x') execl("/bin/cat", "cat", (char *)NULL);
                prctl(PR_SET_NAME, "other");
                puts("renamed");
                fflush(stdout);
            }
            return 1;
        }"#;
    let begin = Instant::now();
    let rules = "[[rule]]\nwatch = false\ncomm = \"other\"";
    let rules = Config::parse(rules, Path::new("fleet.toml")).unwrap().rules;
    let mut discovery = Discovery::new(rules, header_reader);
    discovery.kernel = None;
    let [mut renamed, mut executes, same] = [(); 3].map(|()| Child::run(BECOMES, &[METADATA]));
    let pids = [&renamed, &executes, &same].map(|child| {
        child.wait_for_line("ready");
        id(child)
    });
    let first = settled(&mut discovery, begin);
    for pid in pids {
        assert!(first.iter().any(|change| began(pid)(change).is_some()));
    }
    renamed.send_line("n");
    renamed.wait_for_line("renamed");
    executes.send_line("x");
    executes.send_line("done");
    executes.wait_for_line("done");
    let changes = settled(&mut discovery, begin + RECONCILE);
    let ends = |pid| {
        let ended = ended(pid);
        changes.iter().any(|change| ended(change) == Some(None))
    };
    assert_eq!(pids.map(ends), [true, true, false]);
    let held: HashSet<u32> = discovery.held().collect();
    assert_eq!(pids.map(|pid| held.contains(&pid)), [false, false, true]);
}

/// Check that no more processes are looked at than is paid for, and that the others are when it is.
#[test]
fn looks_are_paid() {
    let begin = Instant::now();
    let children = [(); 2].map(|()| Child::run(WAITS, &[METADATA]));
    let pids = children.each_ref().map(|child| {
        child.wait_for_line("ready");
        id(child)
    });
    let mut discovery = Discovery::new(Rules::default(), header_reader);
    discovery.kernel = None;
    discovery.allowance = Allowance::new(0.0, Duration::from_nanos(1), begin);
    let first = settled(&mut discovery, begin);
    assert!(first.len() <= 1, "{first:?}");
    let waiting = discovery.agenda.len();
    assert!(waiting > 0);
    let none = settled(&mut discovery, begin);
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(discovery.agenda.len(), waiting);
    discovery.allowance = Allowance::new(LOOKING, ADVANCE, begin);
    let rest = settled(&mut discovery, begin);
    let all = || first.iter().chain(&rest);
    for pid in pids {
        assert!(all().any(|change| began(pid)(change).is_some()));
    }
    assert!(discovery.agenda.is_empty() && discovery.due.is_empty());
}

//! Descriptors that run out.

use std::{fs::File, os::fd::AsRawFd as _, path::Path, process::Command, time::Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{METADATA, WAITS, began, ended, id, settled};
use crate::{
    cli::fleet::discovery::{CATCH_UP, Change, Discovery, RECONCILE},
    fleet::rule::Rules,
    reader::testing::header_reader,
    tracee::testing::Child,
};

/// Tells this program that it is the process that runs short.
const RUNS_SHORT: &str = "GWP_RACE_TEST_RUNS_SHORT";

/// Check that while descriptors have run out, nobody who is watched is taken for gone, and whoever could not be looked at is looked at when there are some again; and that a reader is told to be wanting for that. In a process of its own, whose limit is
/// no other test's.
#[test]
fn descriptors_run_out() {
    if std::env::var_os(RUNS_SHORT).is_some() {
        run_short();
        return;
    }
    let name = format!("{}::descriptors_run_out", module_path!());
    let (_, name) = name.split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(RUNS_SHORT, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{errors}"
    );
}

fn run_short() {
    let begin = Instant::now();
    let mut discovery = Discovery::new(Rules::default(), header_reader);
    discovery.kernel = None;
    let child = || {
        let child = Child::run(WAITS, &[METADATA]);
        child.wait_for_line("ready");
        child
    };
    let before = child();
    settled(&mut discovery, begin);
    let later = child();
    let pids = [id(&before), id(&later)];
    let are_held = |discovery: &Discovery| pids.map(|pid| discovery.held.contains_key(&pid));
    assert_eq!(are_held(&discovery), [true, false]);
    let (mut reader, file) = (header_reader(), File::open(later.exe()).unwrap());

    // One at a time is enough to find processes, and to judge who is watched, but not to look at files.
    leave(1);
    let mut changes = settled(&mut discovery, begin + RECONCILE);
    assert_eq!(are_held(&discovery), [true, false]);
    assert!(!discovery.left.contains_key(&pids[1]));
    leave(0);
    changes.extend(settled(&mut discovery, begin + 2 * RECONCILE));
    assert_eq!(are_held(&discovery), [true, false]);
    assert!(discovery.was_short);
    let name = Path::new("later");
    assert_eq!(
        (reader.carries(file, name), reader.is_short()),
        (None, true)
    );
    leave(1 << 10);
    changes.extend(settled(&mut discovery, begin + 2 * RECONCILE + CATCH_UP));
    assert_eq!(are_held(&discovery), [true, true]);
    assert!(!discovery.was_short);
    let has = |is_one: &dyn Fn(&Change) -> bool| changes.iter().any(is_one);
    assert!(
        !pids
            .iter()
            .any(|&pid| has(&|change| ended(pid)(change).is_some()))
    );
    assert!(has(&|change| began(pids[1])(change).is_some()));
}

/// So many descriptors can be had beside those that there are.
fn leave(descriptors: u64) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    let present = u64::try_from(next).unwrap() + descriptors;
    setrlimit(Resource::RLIMIT_NOFILE, present.min(most), most).unwrap();
}

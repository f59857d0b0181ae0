//! A tracer that hangs in one of several leases.

use std::{
    collections::HashSet,
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    chaos::target::{self, Target, standing_threads, waited_for},
    children::{status_field, threads},
    hang::{Hang, holder},
    lost_traps::LostTraps,
    machine::Machine,
};
use nix::{errno::Errno, unistd::Pid};

use super::{PATIENCE, Scratch, is_leased, until};

/// Processes that have leases at the same time, and threads of each: few, so that none is watched by processor, which one lease alone can.
const TARGETS: usize = 3;
const THREADS: usize = 4;
/// Hangs of ours: each lease has its turn.
const HANGS: usize = TARGETS;
/// The watchdog of a busy machine may be first; so often it is tried.
const TRIES: usize = 10;
/// A release takes the deadline of 20 ms where somebody stands, and otherwise a second and some, until the tracer is known to be late; the rest is for a machine that is busy with others.
const RELEASED: Duration = Duration::from_secs(10);
/// Between two looks for a thread that stands, and how long is looked: stops are many in a second.
const SOON: Duration = Duration::from_micros(50);
const STANDS: Duration = Duration::from_secs(20);
/// Between two looks for who is held still.
const LOOKS: Duration = Duration::from_millis(1);
/// Traps that a virtual machine may lose, each of which ends a process whose tracer hangs.
const MOST_LOST: usize = 2;

/// A program that is watched, a file of its own: whoever dies in a lease is left alone with all that execute the same.
struct Watched {
    target: Target,
    lost_traps: LostTraps,
}

impl Watched {
    fn start(scratch: &Scratch, name: &str) -> Self {
        let program = scratch.place(&target::program().unwrap(), name);
        Self {
            lost_traps: LostTraps::of(&program).unwrap(),
            target: Target::start(&program, THREADS).unwrap(),
        }
    }

    fn pid(&self) -> Pid {
        self.target.process.pid()
    }
}

/// Check that a tracer which hangs in one of several leases, by that one's thread alone, is ended, so that all processes that have leases are released, whichever of them it is; that they live and make their turns, nothing of them is
/// armed, no system call was interrupted, and each such lease is told of; and that all are leased again.
#[test]
fn one_hung_lease_releases_all() {
    let _machine = Machine::shared();
    let scratch = Scratch::new();
    let mut all: [_; TARGETS] =
        std::array::from_fn(|number| Watched::start(&scratch, &format!("hung{number}")));
    let mut daemon = scratch.daemon("log");
    let (mut hangs, mut lost) = (0, 0);
    for number in 0..TRIES {
        lost += replaced(&mut all, &scratch, number);
        assert!(lost <= MOST_LOST, "{}", scratch.log("log"));
        let pids = all.each_ref().map(Watched::pid);
        let holders = all_are_leased(&scratch, daemon.pid(), pids);
        let told = tellings(&scratch);
        let which = hangs % TARGETS;
        if !hang(pids[which], holders[which], pids) {
            println!("{number}: the lease has ended, or it has hung by itself");
            continue;
        }
        assert!(until(|| tellings(&scratch).0 > told.0));
        // One that has spent what it may has ended by itself just before.
        let are_several = waited_for(RELEASED, LOOKS, || Ok(tellings(&scratch).1 > told.1 + 1));
        hangs += usize::from(are_several.unwrap());

        assert!(scratch.ask(&["pause"]).status.success());
        assert!(until(|| !is_leased(&scratch.status())));
        lost += replaced(&mut all, &scratch, number);
        for watched in &mut all {
            let pid = watched.pid();
            let wrong = watched.target.board.examine(pid).unwrap();
            assert_eq!(wrong, None, "after hang {number}");
        }
        assert!(scratch.ask(&["resume"]).status.success());
        if hangs == HANGS {
            break;
        }
    }
    assert_eq!(hangs, HANGS, "{}", scratch.log("log"));
    all_are_leased(&scratch, daemon.pid(), all.each_ref().map(Watched::pid));
    scratch.end(&mut daemon, "log");
    for watched in all {
        watched.target.end().unwrap();
    }
}

/// Starts others in place of those that a lost trap has ended; how many.
fn replaced(all: &mut [Watched; TARGETS], scratch: &Scratch, number: usize) -> usize {
    let mut lost = 0;
    for (which, watched) in all.iter_mut().enumerate() {
        if let Some(end) = watched.target.process.ended().unwrap() {
            lost += 1;
            let delivered = watched.lost_traps.delivered().unwrap();
            println!("{end}; {delivered} traps lost by the machine");
            assert!(delivered > 0, "{end}");
            let name = format!("hung{number}_{which}_{}", watched.pid());
            *watched = Watched::start(scratch, &name);
        }
    }
    lost
}

/// Waits until threads of one tracer hold all of them; which ones, each its own.
fn all_are_leased(scratch: &Scratch, daemon: Pid, pids: [Pid; TARGETS]) -> [Pid; TARGETS] {
    let mut holders = [None; TARGETS];
    let are_leased = waited_for(PATIENCE, LOOKS, || {
        holders = pids.map(|pid| holder(daemon, pid));
        Ok(holders.iter().all(Option::is_some))
    });
    assert!(are_leased.unwrap(), "{}", scratch.log("log"));
    let holders = holders.map(Option::unwrap);
    let each: HashSet<_> = holders.into_iter().collect();
    assert_eq!(each.len(), TARGETS, "{holders:?}");
    holders
}

/// Makes the tracer hang by the thread that holds this process, if that has not ended before, as soon as a thread of the process stands, and waits until all are released; whether it was made to.
fn hang(process: Pid, holder: Pid, all: [Pid; TARGETS]) -> bool {
    let Some(tracer) = status_field(holder, "Tgid") else {
        return false;
    };
    let stood = waited_for(STANDS, SOON, || Ok(!standing_threads(process).is_empty()));
    match Hang::Held.begin(holder) {
        Ok(()) => {}
        Err(Errno::ESRCH | Errno::ECHILD) => return false,
        Err(error) => panic!("{error}"),
    }
    let start = Instant::now();
    let standing = standing_threads(process).len();
    let mut released = [None; TARGETS];
    let mut has_ended = false;
    while !has_ended || released.contains(&None) {
        for (released, pid) in released.iter_mut().zip(all) {
            if released.is_none() && is_let_go(pid, &tracer) {
                *released = Some(start.elapsed());
            }
        }
        has_ended = Hang::Held.has_ended(holder);
        assert!(
            start.elapsed() < RELEASED,
            "released: {released:?}; the tracer has ended: {has_ended}"
        );
        sleep(LOOKS);
    }
    println!(
        "a thread stood: {}; {standing} stood when it hung; released after {released:?}",
        stood.unwrap()
    );
    true
}

/// Whether no thread of a process is held by this tracer, or stands without one. Another tracer may hold it soon.
fn is_let_go(pid: Pid, tracer: &str) -> bool {
    threads(pid).all(|tid| {
        let of = |name| status_field(tid, name).unwrap_or_default();
        let holder = of("TracerPid");
        match holder.parse() {
            Ok(0) => !of("State").starts_with(['t', 'T']),
            Ok(holder) => status_field(Pid::from_raw(holder), "Tgid").is_none_or(|of| of != tracer),
            Err(_) => true,
        }
    })
}

/// How many releases the daemon has told, and how many leases that ended so.
fn tellings(scratch: &Scratch) -> (usize, usize) {
    let log = scratch.log("log");
    let releases = log.matches("the watchdog has ended the tracer").count();
    (releases, log.matches(" why=tracer-died ").count())
}

//! Looks that hang.

use std::{
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use super::{METADATA, PATIENCE, WAITS, began, ended, id, settled};
use crate::{
    cli::fleet::discovery::{
        Change, Discovery, RECONCILE,
        looks::{self, Answerer, Looks, tests::Gate},
    },
    fleet::rule::Rules,
    reader::testing::header_reader,
    tracee::testing::Child,
};

/// Check that a look that hangs keeps nobody else from being found, that its process is left alone, whether it was watched before or not, and that it is looked at again when something has come of it.
#[test]
fn looks_that_hang() {
    let begin = Instant::now();
    let children = [(); 3].map(|()| Child::run(WAITS, &[METADATA]));
    let pids @ [hangs, hangs_later, _] = children.each_ref().map(|child| {
        child.wait_for_line("ready");
        id(child)
    });
    let gate = Gate::of([hangs]);
    let mut discovery = Discovery::new(Rules::default(), header_reader);
    discovery.kernel = None;
    discovery.looks = looks_through(&gate);
    let mut changes = hang(&mut discovery, begin, &gate, hangs);
    changes.extend(settled(&mut discovery, begin));
    let is_found = |pid| changes.iter().any(|change| began(pid)(change).is_some());
    assert_eq!(pids.map(is_found), [false, true, true]);

    gate.close(hangs_later);
    let at = begin + RECONCILE;
    let mut changes = hang(&mut discovery, at, &gate, hangs_later);
    changes.extend(settled(&mut discovery, at));
    let ends = |pid| changes.iter().any(|change| ended(pid)(change).is_some());
    assert_eq!(pids.map(ends), [false, true, false]);
    let is_held = |discovery: &Discovery| pids.map(|pid| discovery.held.contains_key(&pid));
    assert_eq!(is_held(&discovery), [false, false, true]);
    settled(&mut discovery, begin + 2 * RECONCILE);
    assert_eq!((gate.times(hangs), gate.times(hangs_later)), (1, 2));

    gate.open();
    let deadline = Instant::now() + PATIENCE;
    for minute in 3.. {
        settled(&mut discovery, begin + minute * RECONCILE);
        if is_held(&discovery) == [true; 3] {
            break;
        }
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(1));
    }
}

/// Looks that hang at a gate.
fn looks_through(gate: &Arc<Gate>) -> Looks {
    let gate = Arc::clone(gate);
    Looks::made(move || -> Answerer {
        let gate = Arc::clone(&gate);
        let mut answer = looks::surveyor(Rules::default(), header_reader());
        Box::new(move |pid, question| {
            gate.pass(pid);
            answer(pid, question)
        })
    })
}

/// Turns until a look at this process has begun, and takes it for one that hangs.
fn hang(discovery: &mut Discovery, now: Instant, gate: &Gate, pid: u32) -> Vec<Change> {
    let before = gate.times(pid);
    let deadline = Instant::now() + PATIENCE;
    let mut changes = Vec::new();
    while gate.times(pid) == before {
        changes.extend(discovery.turn(now).unwrap());
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(1));
    }
    // What was answered before it is taken in.
    changes.extend(discovery.turn(now).unwrap());
    discovery.looks.hangs_now();
    changes.extend(discovery.turn(now).unwrap());
    discovery.looks.hangs_as_usual();
    changes
}

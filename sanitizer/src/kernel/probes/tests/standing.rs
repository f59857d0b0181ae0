//! Probes that stand: who comes is counted and can be stopped, and what is hot does not stay.

use std::collections::BTreeSet;

use gwp_race_abi::{Counter, EVENT_HOT, delivery, phase, probes::HOT_HITS};

use super::*;
use crate::kernel::{
    probes::standing::{Change, GROUP, MOST_GROUPS, Order},
    process::{monotonic_ns, nanos},
    ptrace::{self, Stop},
};

/// Has probes stand until whoever does so is killed.
pub(super) fn hold(probes: &mut Probes, pid: u32, mapping: Range<u64>, all: Vec<Probe>) -> ! {
    let file = file_of(Pid::from_raw(pid.cast_signed()));
    for some in all.chunks(GROUP) {
        let order = Order {
            pid,
            mapping: mapping.clone(),
            file,
            probes: some.to_vec(),
        };
        probes.stand(order).unwrap();
        assert_eq!(next_change(probes).stands.len(), some.len());
    }
    println!("armed");
    loop {
        std::thread::park();
    }
}

fn next_change(probes: &mut Probes) -> Change {
    loop {
        if let Some(change) = probes.change() {
            return change;
        }
        let _ = process::wait_readable([probes.news()], Some(Duration::from_secs(1))).unwrap();
    }
}

/// A program, the gates that watch it, and probes.
fn watched() -> (Target, Gates, Probes) {
    let target = Target::start();
    let (gates, probes) = with_gates();
    let process = &gates.control().process;
    process.tgid.store(u64::from(target.pid()), SeqCst);
    process.tracer.store(u64::from(std::process::id()), SeqCst);
    (target, gates, probes)
}

impl Target {
    fn standing(&self, probes: Vec<Probe>) -> Order {
        Order {
            pid: self.pid(),
            mapping: self.mapping.clone(),
            file: self.file,
            probes,
        }
    }

    /// Probes at so many of the functions, from one on.
    fn many(&self, from: u64, count: u64) -> Vec<Probe> {
        let places = from..from + count;
        places
            .map(|place| place_of_many(self.many, place))
            .collect()
    }

    /// How often threads were seen to come to them.
    fn arrivals(&self, probes: &Probes, of: &[Probe]) -> Vec<u64> {
        of.iter().map(|probe| probes.arrivals(probe.tag)).collect()
    }
}

fn counted(gates: &Gates, counter: Counter) -> u64 {
    gates.control().counters[counter as usize].load(SeqCst)
}

/// How often the gates have told since the last time that a probe is hot.
fn told_hot(gates: &mut Gates) -> usize {
    let told = std::iter::from_fn(|| gates.next_event());
    told.filter(|event| event.kind == EVENT_HOT).count()
}

/// Check that arrivals are counted exactly, at each probe, also where bursts are at the same places; that those of others do not count; and that nothing is left
/// of the probes when they are to stand no more.
#[test]
fn arrivals_are_counted() {
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, gates, mut probes) = watched();
    let some = target.many(0, GROUP as u64);
    probes.stand(target.standing(some.clone())).unwrap();
    let change = next_change(&mut probes);
    let tags: Vec<u32> = some.iter().map(|probe| probe.tag).collect();
    assert_eq!((change.stands, change.groups), (tags.clone(), 1));
    assert!(!target.is_whole());
    target.ask("c 3");
    assert_eq!(target.arrivals(&probes, &some), [3; GROUP]);
    probes.start(target.order(some[..8].to_vec())).unwrap();
    wait_until_noting(&mut probes);
    target.ask("c 2");
    probes.stop_burst();
    let outcome = wait_for_outcome(&mut probes).unwrap();
    assert_eq!(outcome.arrivals.len(), 8);
    assert!(outcome.arrivals.iter().all(|(_, count)| *count == 2));
    assert_eq!(target.arrivals(&probes, &some), [5; GROUP]);
    assert_eq!(counted(&gates, Counter::Arrivals), 5 * GROUP as u64);
    assert_eq!(counted(&gates, Counter::ArrivalsPassed), 0);
    assert_eq!(gates.control().arrivals.hits.load(SeqCst), 5 * GROUP as u64);
    // Another process is watched by now.
    gates.control().process.tgid.store(1, SeqCst);
    target.ask("c 1");
    assert_eq!(target.arrivals(&probes, &some), [5; GROUP]);
    probes.clear().unwrap();
    let change = next_change(&mut probes);
    assert_eq!((change.fell, change.groups), (tags, 0));
    assert!(target.is_whole());
    target.lives();
}

/// Check that a probe to which too many come is told, serves for nothing from then on, and is removed with its group; that the others of that can stand again; and that a program
/// that runs into them all the time goes on.
#[test]
fn what_is_hot_is_removed() {
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, mut gates, mut probes) = watched();
    let cold = target.many(0, 20);
    let hot = Probe {
        tag: 99,
        ..target.probes(target.seen, &[8])[0]
    };
    let mut all = cold.clone();
    all.push(hot);
    probes.stand(target.standing(all)).unwrap();
    assert_eq!(next_change(&mut probes).stands.len(), 21);
    target.ask(&format!("v {}", HOT_HITS - 1));
    assert_eq!(
        (told_hot(&mut gates), probes.arrivals(99)),
        (0, HOT_HITS - 1)
    );
    target.ask("v 5");
    assert_eq!(
        (told_hot(&mut gates), probes.arrivals(99)),
        (1, HOT_HITS - 1)
    );
    let is_past = |since| since < monotonic_ns();
    assert!(probes.hot_since(99).is_some_and(is_past));
    assert_eq!(probes.hot_since(cold[0].tag), None);
    target.ask("c 1");
    probes.remove_hot().unwrap();
    let change = next_change(&mut probes);
    let tags: Vec<u32> = cold.iter().map(|probe| probe.tag).collect();
    assert_eq!(
        (change.hot, change.fell, change.groups),
        (vec![99], tags.clone(), 0)
    );
    assert!(target.is_whole());
    target.ask("c 5");
    probes.stand(target.standing(cold.clone())).unwrap();
    assert_eq!(next_change(&mut probes).stands, tags);
    target.ask("c 2");
    assert_eq!(target.arrivals(&probes, &cold), [2; 20]);
    // All of them are hot now, and so is what is armed.
    target.ask("s");
    let mut told = 0;
    while told < 20 {
        told += told_hot(&mut gates);
        std::thread::yield_now();
    }
    let others = target.many(20, 20);
    probes.stand(target.standing(others.clone())).unwrap();
    let change = next_change(&mut probes);
    assert!(change.stands.is_empty(), "{change:?}");
    assert_eq!(change.hot.len() + change.fell.len(), 40, "{change:?}");
    assert!(target.is_whole());
    assert_eq!(target.ask("e"), "ended");
    target.lives();
}

/// Check that forks are counted, and threads are not among them; and that a child that was forked while probes stood, which has them in its code as well, gets it back
/// together with its parent.
#[test]
fn children_are_healed() {
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, gates, mut probes) = watched();
    let forks = || gates.control().arrivals.forks.load(SeqCst);
    let some = target.many(0, GROUP as u64);
    probes.stand(target.standing(some.clone())).unwrap();
    assert_eq!(next_change(&mut probes).stands.len(), GROUP);
    target.ask("t 3");
    assert_eq!(forks(), 0);
    let child = Pid::from_raw(target.ask("f 3").parse().unwrap());
    assert_eq!(forks(), 1);
    let file = target.child.exe();
    assert!(!is_whole(child, &file, &target.mapping));
    probes.clear().unwrap();
    assert_eq!(next_change(&mut probes).groups, 0);
    assert!(target.is_whole() && is_whole(child, &file, &target.mapping));
    assert_eq!(target.ask(&format!("k {child}")), "killed");
    target.lives();
}

/// Check that where the first thread has ended, by which the kernel knows the process, no more is probed, which is told with the reason; and that what stood there by then can be removed, and harms nobody
/// until then.
#[test]
fn first_threads_that_end() {
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, _gates, mut probes) = watched();
    let file = target.child.exe();
    let some = target.many(0, 8);
    probes.stand(target.standing(some)).unwrap();
    assert_eq!(next_change(&mut probes).stands.len(), 8);
    let other = Pid::from_raw(target.ask("x").parse().unwrap());
    target.child.wait_for_state('Z');
    target.ask("c 2");
    assert!(!is_whole(other, &file, &target.mapping));
    let more = target.many(20, 8);
    probes.stand(target.standing(more.clone())).unwrap();
    let change = next_change(&mut probes);
    assert_eq!((change.stands.len(), change.failed.len()), (0, 8));
    let is_told = change.why.is_some_and(|why| why.contains("first thread"));
    assert!(change.is_over && is_told);
    probes.start(target.order(more)).unwrap();
    let outcome = wait_for_outcome(&mut probes);
    assert!(
        matches!(&outcome, Err(error) if error.is_of_process()),
        "{outcome:?}"
    );
    probes.clear().unwrap();
    assert_eq!(next_change(&mut probes).groups, 0);
    assert!(is_whole(other, &file, &target.mapping));
    target.lives();
}

/// Check that whoever ends in the midst of arming takes nobody's places who comes after him: those who come there are counted.
#[test]
fn places_have_owners() {
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, gates, mut first) = watched();
    let some = target.many(0, 8);
    let tags: BTreeSet<u32> = some.iter().map(|probe| probe.tag).collect();
    let mut had_to_wait = 0;
    for _ in 0..5 {
        for _ in 0..3 {
            first.stand(target.standing(some.clone())).unwrap();
        }
        drop(first);
        let mut next = Probes::load(&gates, WorkClock::of_share(1)).unwrap();
        // The places become free one after the other: some may be had before others are.
        let mut stands = BTreeSet::new();
        loop {
            let missing = some.iter().filter(|probe| !stands.contains(&probe.tag));
            let missing = missing.copied().collect();
            next.stand(target.standing(missing)).unwrap();
            stands.extend(next_change(&mut next).stands);
            if stands == tags {
                break;
            }
            had_to_wait += 1;
        }
        // By then whoever was there before has ended.
        std::thread::sleep(Duration::from_millis(300));
        target.ask("c 2");
        assert_eq!(target.arrivals(&next, &some), [2; 8]);
        first = next;
    }
    println!("places were another one's {had_to_wait} times");
    drop(first);
    target.lives();
}

/// Check that there are no more groups than there may be, and that the one gives way that has stood for longest;
/// and that what cannot be probed is refused, with the reason where that is so of all.
#[test]
fn groups_give_way() {
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, _gates, mut probes) = watched();
    let mut fell = Vec::new();
    for place in 0..MOST_GROUPS as u64 + 3 {
        probes
            .stand(target.standing(target.many(place, 1)))
            .unwrap();
        let change = next_change(&mut probes);
        assert_eq!(change.stands, [place as u32]);
        assert!(change.groups <= MOST_GROUPS);
        fell.extend(change.fell);
    }
    assert_eq!(fell, [0, 1, 2]);
    let nowhere = Probe {
        pc: RuntimeAddr(target.nop5),
        ..target.many(50, 1)[0]
    };
    let mut some = target.many(60, 2);
    some.push(nowhere);
    probes.stand(target.standing(some)).unwrap();
    let change = next_change(&mut probes);
    assert_eq!(
        (change.stands, change.refused, change.why),
        (vec![60, 61], vec![50], None)
    );
    probes.stand(target.standing(vec![nowhere])).unwrap();
    let change = next_change(&mut probes);
    assert_eq!((change.stands, change.refused), (vec![], vec![50]));
    assert!(change.why.is_some_and(|why| why.contains("can be probed")));
    // When nobody needs them any more, they are removed.
    drop(probes);
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while !target.is_whole() {
        assert!(std::time::Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(5));
    }
    target.lives();
}

/// Waits for the next stop of a thread that is traced.
fn wait_for_stop(tid: u32) -> Stop {
    loop {
        if let Some(stop) = ptrace::peek_at(tid).unwrap() {
            let _ = ptrace::take(tid).unwrap();
            return stop;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Check that whoever comes to a probe is claimed once and stopped at the next instruction, before the access, while that is asked for: not at probes that are spared, not after the time, not while there is something in
/// hand, not beyond the budget, and not where the signal would not be harmless.
#[test]
fn arrivals_are_stopped() {
    const LONG: Duration = Duration::from_secs(600);
    let Some(_alone) = alone() else {
        return;
    };
    let (mut target, gates, mut probes) = watched();
    let some = target.many(0, 3);
    probes.stand(target.standing(some.clone())).unwrap();
    assert_eq!(next_change(&mut probes).stands.len(), 3);
    let control = gates.control();
    let tid = target.pid();
    gates.phase().enter(1, phase::IDLE);
    let open = |until| control.arrivals.until_ns.store(until, SeqCst);
    let passed = || counted(&gates, Counter::ArrivalsPassed);
    // SIGURG, which is ignored by default.
    let signal = libc::SIGURG;
    control.events.delivery.store(signal as u64, SeqCst);
    // Nobody traces it.
    open(monotonic_ns() + nanos(LONG));
    target.ask("c 1");
    assert_eq!(passed(), 0);
    ptrace::seize(tid, tid).unwrap();
    // It is over; nothing is left of the budget; with SIGTRAP it would die.
    open(monotonic_ns() - 1);
    target.ask("c 1");
    open(monotonic_ns() + nanos(LONG));
    control.budget.spent_ns.store(1 << 40, SeqCst);
    target.ask("c 1");
    control.budget.spent_ns.store(0, SeqCst);
    control.budget.earned_ns.store(1 << 40, SeqCst);
    control
        .events
        .delivery
        .store(u64::from(delivery::SIGTRAP), SeqCst);
    target.ask("c 1");
    assert_eq!(passed(), 0);
    control.events.delivery.store(signal as u64, SeqCst);
    // At those that are spared nobody is, and all are counted.
    let before = target.arrivals(&probes, &some);
    for probe in &some {
        probes.spare(probe.tag, true);
    }
    target.ask("c 1");
    assert_eq!(passed(), 0);
    let after = target.arrivals(&probes, &some);
    assert!(
        before
            .iter()
            .zip(after)
            .all(|(before, after)| after == before + 1)
    );
    for probe in &some {
        probes.spare(probe.tag, false);
    }
    for round in 1..=3 {
        target.child.send_line("c 1");
        assert_eq!(wait_for_stop(tid), Stop::Signal(signal));
        // Behind the `push`, which was executed: the access is next.
        let regs = ptrace::registers(tid).unwrap();
        assert_eq!(regs.rip, some[0].pc.0 + 1);
        let word = gates.phase().read();
        assert_eq!(
            (word.phase(), word.generation()),
            (phase::CLAIMED, round + 1)
        );
        assert_eq!(control.claim.owner.load(SeqCst), u64::from(tid));
        assert!(control.watchdog.standing_since_ns.load(SeqCst) > 0);
        ptrace::resume(tid, 0).unwrap();
        assert_eq!(target.child.read_line().trim(), tid.to_string());
        // While one is in hand nobody else is claimed.
        assert_eq!(passed(), round);
        gates.phase().enter(round + 1, phase::IDLE);
    }
    open(0);
    target.lives();
    probes.clear().unwrap();
    next_change(&mut probes);
    assert!(target.is_whole());
}

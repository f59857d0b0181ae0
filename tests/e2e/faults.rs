//! Each call that can fail does, and the target comes to no harm by it: gwp-race says what has
//! failed, or goes on.

use std::collections::BTreeSet;

use gwp_race_tests::{
    binary,
    chaos::{
        Way,
        fault::{Action, Fault, Session, session},
        random::Random,
    },
};

/// What the choice of calls begins with, unless `GWP_RACE_SEED` says otherwise.
const SEED: u64 = 1;
/// Calls of each kind that fail, besides the first one, and in the full run the second one.
const CHOSEN: usize = 1;
/// The same in the full run.
const CHOSEN_IN_FULL: usize = 20;

/// Errors that a kind of call can fail with.
fn errors(call: &str) -> &'static [i32] {
    match call {
        "ptrace(PTRACE_SEIZE)" => &[libc::EPERM, libc::ESRCH],
        "waitid" | "waitpid" => &[libc::ECHILD, libc::EINVAL],
        "perf_event_open" => &[libc::ENOSPC, libc::EMFILE, libc::ENOMEM, libc::EACCES],
        "process_vm_readv" => &[libc::EPERM, libc::EFAULT, libc::ESRCH],
        "fork" | "clone" => &[libc::EAGAIN],
        "signalfd" | "eventfd" => &[libc::EMFILE],
        _ if call.starts_with("ptrace") => &[libc::ESRCH, libc::EIO],
        _ if call.starts_with("bpf") => &[libc::EPERM, libc::ENOMEM],
        _ => &[libc::ENOMEM, libc::EINVAL],
    }
}

fn random() -> Random {
    let seed = std::env::var("GWP_RACE_SEED").ok();
    Random::new(seed.map_or(SEED, |seed| seed.parse().unwrap()))
}

/// Calls of each kind that is made in a session without a fault: the first ones and some others.
fn places(way: Way, random: &mut Random) -> Vec<(String, u64)> {
    let usual = session(way, None).unwrap();
    assert_eq!((usual.code, usual.harm), (Some(0), None), "{}", usual.said);
    let (certain, chosen) = if binary::full() {
        (2, CHOSEN_IN_FULL)
    } else {
        (1, CHOSEN)
    };
    let mut places = Vec::new();
    for (call, count) in usual.counts.into_iter().filter(|(_, count)| *count > 0) {
        let any = (0..chosen).map(|_| 1 + random.number() % count);
        let numbers: BTreeSet<u64> = (1..=count.min(certain)).chain(any).collect();
        println!("{count:6} {call}: {numbers:?}");
        places.extend(numbers.into_iter().map(|number| (call.clone(), number)));
    }
    assert!(places.len() > 30, "too few kinds of calls are announced");
    places
}

/// What is wrong with how gwp-race behaves when a call fails.
fn complaint(way: Way, session: &Session) -> Option<String> {
    let Session {
        code, said, harm, ..
    } = session;
    if let Some(harm) = harm {
        return Some(harm.clone());
    }
    if said.contains("panicked") {
        return Some("it panics".to_owned());
    }
    let failure = match way {
        Way::Attach => Some(1),
        // The exit code is the program's once there is one.
        Way::Run | Way::RunHandled | Way::RunWithoutRights => (!session.started).then_some(125),
    };
    match code {
        Some(0) if session.started => None,
        code if *code == failure && said.contains("gwp-race: ") => None,
        code => Some(format!("its exit code is {code:?}")),
    }
}

/// Has each place fail, for once and from there on, and returns what went wrong.
fn have_each_fail(way: Way) {
    let mut random = random();
    let mut wrong = Vec::new();
    let (mut met, mut all) = (0, 0);
    for (call, first) in places(way, &mut random) {
        let errors = errors(&call);
        let errno = errors[(random.number() % errors.len() as u64) as usize];
        // The rest of a session without the call is the third place's.
        let last = if first > 2 { u64::MAX } else { first };
        let fault = Fault {
            call,
            first,
            last,
            action: Action::Fail(errno),
        };
        let session =
            session(way, Some(&fault)).unwrap_or_else(|error| panic!("{fault}: {error:#}"));
        all += 1;
        met += usize::from(session.has_met(&fault));
        let said = session.said.trim_end();
        println!("{fault}: {:?} {said}", session.code);
        if let Some(complaint) = complaint(way, &session) {
            wrong.push(format!("{fault}: {complaint}\n{said}"));
        }
    }
    println!("{met} of {all} faults have happened");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        met * 4 >= all * 3,
        "only {met} of {all} faults have happened"
    );
}

/// Check that whatever fails while a process is attached to and watched, it comes to no harm.
#[test]
fn attached_targets_take_no_harm() {
    have_each_fail(Way::Attach);
}

/// Check that whatever fails while a program is started and watched, it comes to no harm, and its
/// exit code is passed on.
#[test]
fn started_targets_take_no_harm() {
    have_each_fail(Way::Run);
}

/// Check that a process which is killed at any stage of the attaching ends it: with an error if
/// there was nothing to watch, and soon.
#[test]
fn targets_may_die_at_any_stage() {
    let mut random = random();
    for (call, first) in places(Way::Attach, &mut random) {
        if first == 2 {
            // As good as the first.
            continue;
        }
        let fault = Fault {
            call,
            first,
            last: first,
            action: Action::KillTarget,
        };
        let session =
            session(Way::Attach, Some(&fault)).unwrap_or_else(|error| panic!("{fault}: {error:#}"));
        println!("{fault}: {:?} {}", session.code, session.said.trim_end());
        if !session.has_met(&fault) {
            continue;
        }
        assert!(!session.said.contains("panicked"), "{fault}: {session:?}");
        let told = ["has ended", "does not exist"];
        let told = told.iter().any(|words| session.said.contains(words));
        match session.code {
            Some(0) => {}
            Some(1) if told => {}
            _ => panic!("{fault}: {session:?}"),
        }
    }
}

/// Check that a tracer which dies before it watches anything, of whatever it be, is replaced: the program is started and watched all the
/// same. One that always dies is told, and then nothing is started that would not be watched.
#[test]
fn lost_tracers_are_replaced() {
    // Each by another of the processes, or at another stage.
    let calls = [
        "prctl(PR_SET_PDEATHSIG)",
        "ioctl(PERF_EVENT_IOC_SET_BPF)",
        "fork",
        "timer_create",
        "ptrace(PTRACE_SEIZE)",
    ];
    let is_told = "gets another tracer";
    for way in [Way::Run, Way::Attach] {
        for (call, last) in calls.iter().flat_map(|call| [(call, 1), (call, u64::MAX)]) {
            let fault = Fault {
                call: (*call).to_owned(),
                first: 1,
                last,
                action: Action::KillCaller,
            };
            let session =
                session(way, Some(&fault)).unwrap_or_else(|error| panic!("{fault}: {error:#}"));
            let Session {
                code, said, harm, ..
            } = &session;
            println!("{way:?}, {fault}: {code:?} {}", said.trim_end());
            assert!(session.has_met(&fault), "{way:?}, {fault}: {session:?}");
            assert_eq!(*harm, None, "{way:?}, {fault}: {said}");
            if last == 1 {
                assert_eq!(*code, Some(0), "{way:?}, {fault}: {said}");
                assert_eq!(said.matches(is_told).count(), 1, "{said}");
                assert!(!said.contains("without being watched"), "{said}");
            } else {
                let failure = if way == Way::Attach { 1 } else { 125 };
                assert_eq!(*code, Some(failure), "{way:?}, {fault}: {said}");
                assert_eq!(said.matches(is_told).count(), 2, "{said}");
                assert_eq!(session.started, way == Way::Attach);
            }
        }
    }
}

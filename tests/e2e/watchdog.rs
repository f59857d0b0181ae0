//! The watchdog lets the target go when its tracer hangs, and nothing that comes later is a report.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch,
    children::{Guarded, Mark, descendants, status_field, threads},
    compile,
    hang::{Hang, holder},
    lost_traps::LostTraps,
};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
};

/// Hangs of each kind that are tried.
const ROUNDS: u64 = 6;
/// A release takes the deadline of 20 ms; the rest is for a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a start or a new attaching may take.
const STARTING: Duration = Duration::from_secs(60);

/// Traps that a virtual machine may lose in a test, each of which ends a program whose tracer hangs.
const MOST_LOST: u64 = 3;

/// What `gwp-race run` ends with where SIGTRAP has ended the program.
const SIGTRAP_EXIT: i32 = 128 + Signal::SIGTRAP as i32;

fn wait_until(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(1));
    }
}

/// Check that a tracer that hangs, at whatever instant, is ended, and that its target is then
/// neither held nor standing still.
#[test]
fn a_hung_tracer_is_ended() {
    let program =
        compile::program(&Program::new("races/many_threads.c"), Configuration::USUAL).unwrap();
    let start = || {
        let mut command = Command::new(&program);
        command.args(["300", "4"]).stdout(Stdio::null());
        Guarded::new(command.spawn().unwrap())
    };
    let mut target = start();
    let mut lost_traps = LostTraps::of(&program).unwrap();
    let mut lost = 0;
    let scratch = tempfile::tempdir().unwrap();
    let mut made_to_hang = 0;
    for round in 0..2 * ROUNDS {
        let hang = if round % 2 == 0 {
            Hang::Stopped
        } else {
            Hang::Held
        };
        let report = scratch.path().join(format!("report{round}"));
        let mut attach = Watch::aggressive().attach_command(target.pid(), &report);
        let mut attached = Guarded::new(attach.stderr(Stdio::null()).spawn().unwrap());
        // A report is the proof that sampling is in full swing.
        wait_until(STARTING, "the race is caught", || {
            std::fs::metadata(&report).is_ok_and(|report| report.len() > 0)
        });
        // On a busy machine the watchdog may have ended one by itself, and the next is on its way.
        let mut tracer = None;
        wait_until(STARTING, "a tracer holds the target", || {
            tracer = holder(attached.pid(), target.pid());
            tracer.is_some()
        });
        let tracer = tracer.unwrap();
        // Steps of 0 to 100 ms in an order without pattern.
        sleep(Duration::from_micros(round * 17_389 % 100_000));
        match hang.begin(tracer) {
            Ok(()) => made_to_hang += 1,
            Err(Errno::ESRCH | Errno::ECHILD) => println!("round {round}: it has hung by itself"),
            Err(error) => panic!("round {round}, {hang:?}: {error}"),
        }
        wait_until(PATIENCE, "the tracer is ended", || hang.has_ended(tracer));
        for thread in threads(target.pid()) {
            let state = status_field(thread, "State").unwrap_or_default();
            assert!(
                !state.starts_with(['t', 'T']),
                "round {round}, {hang:?}: thread {thread} stands still: {state}"
            );
        }
        println!("round {round}, {hang:?}: released");
        if round == 0 {
            wait_until(STARTING, "it is watched again", || {
                let again = holder(attached.pid(), target.pid());
                target.ended().unwrap().is_some() || again.is_some_and(|again| again != tracer)
            });
        }
        kill(attached.pid(), Signal::SIGTERM).unwrap();
        assert!(attached.wait(STARTING).unwrap().success());
        if let Some(end) = target.ended().unwrap() {
            lost += 1;
            let delivered = lost_traps.delivered().unwrap();
            println!(
                "round {round}, {hang:?}: {end}; {delivered} traps lost by the machine so far"
            );
            // Each ends one target.
            assert!(delivered >= lost && lost < MOST_LOST, "{end}");
            target = start();
        }
    }
    assert!(made_to_hang >= ROUNDS, "only {made_to_hang} hangs of ours");
}

/// Check that a SIGTRAP ends none of gwp-race's processes: a virtual machine may deliver somebody
/// else's breakpoint to them.
#[test]
fn stray_traps_end_nobody() {
    let program =
        compile::program(&Program::new("races/many_threads.c"), Configuration::USUAL).unwrap();
    let mut command = Command::new(program);
    command.args(["60", "4"]).stdout(Stdio::null());
    let target = Guarded::new(command.spawn().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let mut attach = Watch::usual().attach_command(target.pid(), &scratch.path().join("report"));
    let mut attached = Guarded::new(attach.stderr(Stdio::null()).spawn().unwrap());
    wait_until(STARTING, "a tracer holds the target", || {
        holder(attached.pid(), target.pid()).is_some()
    });
    let mut processes = descendants(attached.pid());
    processes.push(attached.pid());
    println!("{processes:?}");
    assert!(processes.len() >= 3, "daemon, watchdog and tracer");
    for process in processes {
        kill(process, Signal::SIGTRAP).unwrap();
    }
    // A tracer or watchdog that has died is a failure, which ends gwp-race.
    sleep(Duration::from_millis(500));
    assert_eq!(attached.ended().unwrap(), None);
    kill(attached.pid(), Signal::SIGTERM).unwrap();
    assert!(attached.wait(STARTING).unwrap().success());
}

/// Runs a program whose tracers are stopped again and again, at instants that vary; again where the
/// machine, by a trap that it has lost, has ended it.
fn run_with_hangs(program: &Program, until: Until) -> Outcome {
    let program = compile::program(program, Configuration::USUAL).unwrap();
    let mut lost_traps = LostTraps::of(&program).unwrap();
    let mut outcome = run_with_hangs_once(&program, until);
    for lost in 1..MOST_LOST {
        let delivered = lost_traps.delivered().unwrap();
        if outcome.status.code() != Some(SIGTRAP_EXIT) || delivered < lost {
            break;
        }
        println!("{delivered} traps lost by the machine so far");
        outcome = run_with_hangs_once(&program, until);
    }
    outcome
}

fn run_with_hangs_once(program: &Path, until: Until) -> Outcome {
    let mark = Mark::default();
    let watch = Watch::aggressive().option(&["-v"]).marked(&mark);
    let name = program.file_name().unwrap().to_str().unwrap();
    let is_held = || {
        let holder = mark
            .process(name)
            .and_then(|target| status_field(target, "TracerPid"));
        holder.is_some_and(|holder| holder != "0")
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| watch.run(program, &["15", "2"], until));
        let mut round = 0;
        let wait_while = |goes_on: &dyn Fn() -> bool| {
            while goes_on() && !running.is_finished() {
                sleep(Duration::from_millis(10));
            }
        };
        while !running.is_finished() {
            round += 1;
            wait_while(&|| !is_held());
            // Statistics come once a second: those of a tracer that ends before are lost.
            sleep(Duration::from_micros(1_500_000 + round * 17_389 % 100_000));
            if let Some(tracer) = mark.process("gwp-race-tracer") {
                let _ = kill(tracer, Signal::SIGSTOP);
                wait_while(&|| status_field(tracer, "State").is_some());
            }
        }
        running.join().unwrap().unwrap()
    })
}

/// Check that a stall which the watchdog has ended leads to no report: the accesses of a program
/// that are ordered by a mutex come right after the release. The same program without the mutex
/// is caught in the same conditions.
#[test]
fn nothing_is_reported_after_a_release() {
    let program = Program::new("silent/mutex.c");
    let (mut releases, mut stalls) = (0.0, 0.0);
    // One run is enough but where starting takes most of it.
    for attempt in 1..=5 {
        let outcome = run_with_hangs(&program, Until::End);
        assert!(outcome.status.success(), "{outcome:?}");
        assert!(outcome.report.races.is_empty(), "{outcome:?}");
        releases += outcome.report.number("watchdog_releases");
        stalls += outcome.report.number("stalls");
        println!("try {attempt}: {releases} releases, {stalls} stalls by now");
        if releases >= 3.0 && stalls > 0.0 {
            break;
        }
    }
    assert!(releases >= 3.0 && stalls > 0.0);

    let caught = (1..=5).any(|attempt| {
        let outcome = run_with_hangs(&program.clone().broken(), Until::Race);
        println!(
            "without the mutex, try {attempt}: {:?}",
            outcome.first_race_s
        );
        !outcome.report.races.is_empty()
    });
    assert!(caught, "the race was not caught in five tries");
}

//! The kernel's probes tell who uses what: sites that two threads use are known by them. Where they stand at sites to which hardly anybody comes, whoever does can be stopped.

use std::{path::Path, process::Command, time::Duration};

use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch, binary::gwp_race, compile, luck::Spent,
};

/// For how many seconds, and by how many threads.
const RUN: [&str; 2] = ["8", "4"];
/// Catching somebody takes luck, and so does a burst at the right moment: so many tries it may take.
const TRIES: u32 = 5;
/// How many runs the silent program needs at most to have been tried as much as its twin.
const RUNS: u32 = 20;

/// Bursts, and groups of probes that stand, of which there are no more in a second; and probes of a group.
const GROUPS_A_SECOND: f64 = 4.0;
const GROUP: f64 = 64.0;

fn watch() -> Watch {
    Watch::aggressive()
        .option(&["--strategy", "planner", "--probes", "yes"])
        .limit(Duration::from_secs(90))
}

/// How often probes were armed, and how many threads came to them.
fn bursts(outcome: &Outcome) -> (f64, f64) {
    let number = |name: &str| outcome.report.number(name);
    (number("probe_bursts"), number("probe_hits"))
}

/// How many bursts have shown two threads at the same bytes, by a decision log, which must be decided again.
fn met(log: &Path) -> usize {
    let decisions = |arguments: &[&str]| {
        let mut command = Command::new(gwp_race());
        let output = command.arg("decisions").args(arguments).arg(log).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(decisions(&["--replay"]).starts_with("the same "));
    let text = decisions(&[]);
    let lines = text.lines();
    lines
        .filter(|line| line.contains("profiled ") && line.contains(" met at 0x"))
        .count()
}

/// Check that where probes are allowed they are armed, show that two threads use the same members, and one of the races is caught; and that the same program stays silent where it
/// locks, through as many attempts and as many bursts.
#[test]
fn what_is_shared_is_known_and_caught() {
    let program = Program::new("silent/cold_members.c");
    let broken = compile::program(&program.clone().broken(), Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("log");
    let (mut spent, mut all) = (Spent::default(), 0.0);
    let caught = (1..=TRIES).any(|attempt| {
        let watch = watch().option(&["--decision-log", log.to_str().unwrap()]);
        let outcome = watch.run(&broken, &RUN, Until::End).unwrap();
        for race in &outcome.report.races {
            let mut frames = race.accesses.iter().filter_map(|access| access.stack.first());
            assert!(
                frames.all(|frame| frame.function.as_ref().is_some_and(|name| name.starts_with("change_"))),
                "{race:?}"
            );
        }
        spent += Spent::from(&outcome.report);
        let (bursts, hits) = bursts(&outcome);
        all += bursts;
        let (races, met) = (outcome.report.races.len(), met(&log));
        println!("try {attempt}: {races} races, {bursts} bursts with {hits} hits, {met} of which have shown somebody");
        races > 0 && met > 0
    });
    assert!(caught, "not in {TRIES} tries: {spent:?}, {all} bursts");

    let ordered = compile::program(&program, Configuration::USUAL).unwrap();
    let (mut silent, mut silent_bursts, mut runs) = (Spent::default(), 0.0, 0);
    while silent.attempts() < spent.attempts() || silent_bursts < all {
        let outcome = watch().run(&ordered, &RUN, Until::End).unwrap();
        let races = &outcome.report.races;
        assert!(races.is_empty(), "{races:#?}\n{}", outcome.stderr);
        silent += Spent::from(&outcome.report);
        silent_bursts += bursts(&outcome).0;
        println!("silent through {silent:?}, {silent_bursts} of {all} bursts");
        runs += 1;
        assert!(runs < RUNS, "{silent:?} of {spent:?}");
    }
}

/// How many threads were stopped at probes that stand, and how often that has caught somebody.
fn arrivals(outcome: &Outcome) -> (f64, f64) {
    let report = &outcome.report;
    (
        report.number("arrivals_stopped"),
        report.came_to("arrival: hit"),
    )
}

/// Check that a race at sites to which hardly anybody comes is caught by a thread that was stopped at one of the probes that stand there; and that the same program stays silent where it
/// locks, through as many of such threads.
#[test]
fn what_is_cold_is_caught_by_arrivals() {
    let program = Program::new("silent/cold_sites.c");
    let broken = compile::program(&program.clone().broken(), Configuration::USUAL).unwrap();
    let mut all = 0.0;
    let caught = (1..=TRIES).any(|attempt| {
        let outcome = watch().run(&broken, &RUN, Until::End).unwrap();
        for race in &outcome.report.races {
            let mut frames = race.accesses.iter().filter_map(|access| access.stack.first());
            assert!(
                frames.all(|frame| frame.function.as_ref().is_some_and(|name| name.starts_with("change_"))),
                "{race:?}"
            );
        }
        let number = |name: &str| outcome.report.number(name);
        let (stopped, caught) = arrivals(&outcome);
        all += stopped;
        let (races, armed, hot) = (outcome.report.races.len(), number("probes_armed"), number("probes_hot"));
        println!(
            "try {attempt}: {races} races, {armed} probes stood, {hot} hot, {} arrivals, {stopped} stopped, {caught} caught",
            number("arrivals")
        );
        races > 0 && caught > 0.0
    });
    assert!(
        caught,
        "not in {TRIES} tries, with {all} threads that were stopped"
    );

    let ordered = compile::program(&program, Configuration::USUAL).unwrap();
    let (mut silent, mut runs) = (0.0, 0);
    while silent < all {
        let outcome = watch().run(&ordered, &RUN, Until::End).unwrap();
        let races = &outcome.report.races;
        assert!(races.is_empty(), "{races:#?}\n{}", outcome.stderr);
        silent += arrivals(&outcome).0;
        println!("silent through {silent} of {all} threads that were stopped");
        runs += 1;
        assert!(runs < RUNS, "{silent} of {all}");
    }
}

/// Check that a program that reads its own code finds it whole when it is not watched any more, that its code is not changed more often than it may be, and never where probes are not allowed.
#[test]
fn code_is_whole_afterwards() {
    let built =
        compile::program(&Program::new("conduct/own_text.c"), Configuration::USUAL).unwrap();
    let run = |probes: &str| {
        let watch = Watch::aggressive().option(&["--probes", probes, "--duration", "4s"]);
        watch.run(&built, &["7"], Until::End).unwrap()
    };
    let with = run("yes");
    let (bursts_with, _) = bursts(&with);
    let armed = with.report.number("probes_armed");
    let hot = with.report.number("probes_hot");
    assert!(bursts_with + armed + hot > 0.0, "{}", with.stderr);
    // Whoever maps memory waits for each: there are so many a second, and no more.
    let groups = GROUPS_A_SECOND * (with.report.number("elapsed_s") + 1.0);
    assert!(
        bursts_with <= groups && armed <= groups * GROUP,
        "{}",
        with.stderr
    );
    assert!(with.stdout.contains("is whole"), "{}", with.stdout);
    let without = run("no");
    assert_eq!(bursts(&without), (0.0, 0.0));
    assert_eq!(without.report.number("probes_armed"), 0.0);
    assert!(
        without.stdout.contains("was never changed, is whole"),
        "{}",
        without.stdout
    );
}

/// Check that a program whose first thread ends while probes stand and are armed goes on with its code whole, and that it is told that it has none any more.
#[test]
fn first_threads_may_end() {
    let built =
        compile::program(&Program::new("conduct/own_text.c"), Configuration::USUAL).unwrap();
    let watch = watch().option(&["-vv", "--duration", "6s"]);
    let is_told = (1..=TRIES).any(|attempt| {
        let outcome = watch.run(&built, &["9", "ends"], Until::End).unwrap();
        let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
        assert!(stdout.contains("is whole\ndone\n"), "{stdout}{stderr}");
        let is_told = stderr.contains("first thread has ended");
        println!("try {attempt}: {:?}, {is_told}: {stdout}", bursts(&outcome));
        is_told
    });
    assert!(is_told, "not in {TRIES} tries");
}

/// Check that a program whose threads map memory all the time goes on all the time while probes are armed and removed, with the code whole in the end; and that one which forks besides has
/// children that end as they would.
#[test]
fn who_maps_memory_goes_on() {
    let program = Program::new("conduct/maps_memory.c");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let watch = watch().option(&["--follow-forks", "no", "--duration", "5s"]);
    for arguments in [&["7"][..], &["7", "forks"]] {
        let is_probed = (1..=TRIES).any(|attempt| {
            let outcome = watch.run(&built, arguments, Until::End).unwrap();
            let stdout = &outcome.stdout;
            assert!(outcome.status.success(), "{arguments:?}: {outcome:?}");
            assert!(
                stdout.contains("is whole\n") && stdout.ends_with("done\n"),
                "{arguments:?}: {stdout}"
            );
            let (bursts, hits) = bursts(&outcome);
            let [armed, hot] =
                ["probes_armed", "probes_hot"].map(|name| outcome.report.number(name));
            println!("{arguments:?}, try {attempt}: {bursts} bursts with {hits} hits, {armed} probes stood, {hot} hot: {stdout}");
            // None stands where the program forks.
            let stood = armed > 0.0 || arguments.len() > 1;
            bursts > 0.0 && hits > 0.0 && stood
        });
        assert!(is_probed, "{arguments:?}: not in {TRIES} tries");
    }
}

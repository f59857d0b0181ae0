//! What the strategies find, and that they say what they have looked at.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::sleep,
    time::Duration,
};

use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch, children::Guarded, compile, luck::Luck,
};
use nix::sys::signal::{Signal, kill};

/// Catching a race takes luck: so many tries it may take.
const TRIES: u32 = 5;

/// Runs the program under a strategy until its race is caught, as often and as readily as it takes to notice a loss; of
/// `usual` attempts each.
fn catch(program: &Program, strategy: &str, usual: f64) -> Vec<Outcome> {
    let built = compile::program(program, Configuration::USUAL).unwrap();
    let luck = Luck::new(format!("{} by {strategy}", program.name()), usual);
    let watch = Watch::aggressive().option(&["--strategy", strategy]);
    let outcomes = luck.repeat(|| watch.run(&built, &["20"], Until::Race));
    let outcomes = outcomes.unwrap();
    for outcome in &outcomes {
        let race = outcome.report.races.first().unwrap();
        let accesses = &mut race.accesses.iter();
        assert!(
            accesses.all(|access| access.has_function("increment")),
            "{race:?}"
        );
    }
    outcomes
}

fn hot() -> Program {
    Program::new("races/many_threads.c")
}

fn rare() -> Program {
    Program::new("silent/rare.c").broken()
}

/// Check that samples of CPU time find a race between accesses that follow each other closely, and
/// that no site is waited at.
#[test]
fn clock_finds_what_is_hot() {
    for outcome in catch(&hot(), "clock", 3.0) {
        assert_eq!(outcome.report.number("site_waits") as u64, 0);
    }
}

/// Check that the planner finds the same, and that access sites are counted.
#[test]
fn planner_finds_what_is_hot() {
    for outcome in catch(&hot(), "planner", 15.0) {
        let number = |name: &str| outcome.report.number(name);
        assert!(number("sites_sampled") >= 1.0);
        assert!(number("sites_total") >= number("sites_sampled"));
    }
}

/// Check that the planner finds what is executed rarely, where samples of CPU time fall into
/// other code nearly always. That the program is silent when it locks: `silence::rare`.
#[test]
fn planner_finds_what_is_rare() {
    catch(&rare(), "planner", 20.0);
}

/// Check that the functions that were looked at are told with their sites, and that all are counted.
#[test]
fn coverage_is_told_by_function() {
    let built = compile::program(&rare(), Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let table = scratch.path().join("coverage.csv");
    let outcome = Watch::aggressive()
        .option(&["--coverage", table.to_str().unwrap()])
        .run(&built, &["3"], Until::End)
        .unwrap();
    let text = fs::read_to_string(&table).unwrap();
    print!("{text}");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("module,offset,function,sites,sampled,contended")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let number = |row: &[&str], column: usize| row[column].parse::<u64>().unwrap();
    let increment = rows.iter().find(|row| row[2] == "increment").unwrap();
    assert_eq!(increment[0], built.to_str().unwrap());
    assert!(number(increment, 3) >= 1 && number(increment, 4) >= 1);
    let sum = |column| rows.iter().map(|row| number(row, column)).sum::<u64>() as f64;
    assert_eq!(sum(3), outcome.report.number("sites_total"));
    assert_eq!(sum(4), outcome.report.number("sites_sampled"));
}

/// Check that with a small budget, too, a site is found that is seldom executed. With its lock, the same program stays silent.
#[test]
fn planner_finds_what_is_seldom() {
    const SECONDS: [&str; 1] = ["20"];
    const LIMIT: Duration = Duration::from_secs(90);
    let locked = compile::program(&Program::new("silent/seldom.c"), Configuration::USUAL).unwrap();
    let watch = Watch::usual().limit(LIMIT);
    let outcome = watch.run(&locked, &SECONDS, Until::End).unwrap();
    assert!(outcome.report.races.is_empty(), "{outcome:?}");

    let broken = Program::new("silent/seldom.c").broken();
    let broken = compile::program(&broken, Configuration::USUAL).unwrap();
    let caught = (1..=TRIES).any(|attempt| {
        let outcome = watch.run(&broken, &SECONDS, Until::Race).unwrap();
        let race = outcome.report.races.first();
        println!(
            "try {attempt}: {:?} after {:?} s",
            race.map(|race| race.places()),
            outcome.first_race_s
        );
        race.is_some()
    });
    assert!(caught, "not caught in {TRIES} tries");
}

/// Check that a thread is stalled for what it is about to access a few instructions later, where all that comes before is
/// its own, and that the report names that access.
#[test]
fn what_comes_next_is_watched() {
    let program = Program::new("races/ahead.c");
    let source = include_str!("../fixtures/races/ahead.c");
    let before = source
        .lines()
        .take_while(|line| !line.contains("shared = 4"));
    let line = u32::try_from(before.count() + 1).unwrap();
    for caught in catch(&program, "clock", 6.0) {
        for access in &caught.report.races.first().unwrap().accesses {
            let frame = access.stack.first();
            assert_eq!(frame.and_then(|frame| frame.line), Some(line));
        }
    }
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let long = Watch::aggressive()
        .option(&["--strategy", "clock"])
        .run(&built, &["5"], Until::End)
        .unwrap();
    assert!(long.report.came_to(": beside") > 0.0, "{long:?}");
    assert!(long.report.number("races_total") > 0.0, "{long:?}");
}

/// Check that whoever is known to race does not end a stall, so that others may come as well: most of what traps is of
/// that kind soon.
#[test]
fn known_races_do_not_end_stalls() {
    let built = compile::program(&hot(), Configuration::USUAL).unwrap();
    let outcome = Watch::aggressive()
        .option(&["--strategy", "planner"])
        .run(&built, &["5"], Until::End)
        .unwrap();
    let [hits, races, stalls] =
        ["hits", "races_total", "stalls"].map(|name| outcome.report.number(name));
    println!("{stalls} stalls, {hits} hits, {races} races");
    assert!(races > 4.0 && hits > 4.0 * races, "{outcome:?}");
}

/// Check that a stall goes on past those that it has caught: one of them finds several races, as many functions use the variable.
#[test]
fn stalls_catch_several() {
    let broken = Program::new("silent/users.c").broken();
    let built = compile::program(&broken, Configuration::USUAL).unwrap();
    let found = (1..=TRIES).any(|attempt| {
        let outcome = Watch::aggressive()
            // Before each with each was seen.
            .option(&["--strategy", "planner", "--duration", "400ms"])
            .run(&built, &["2", "2"], Until::End)
            .unwrap();
        let races = outcome.report.races.len();
        let stalls = outcome.report.came_to(": hit");
        println!("try {attempt}: {races} races by {stalls} stalls that have found some");
        races >= 20 && races as f64 > 2.5 * stalls
    });
    assert!(found, "not in {TRIES} tries");
}

/// Check that of many objects those are watched that several threads use, by thread and by processor: a race takes two or three
/// stalls where two threads have a processor all the time, six beside another test, up to eighteen on a machine that others use as
/// well; six threads on two processors take eleven. By chance, one of sixteen accesses is to such an object, and the other thread
/// is to have a processor meanwhile. Ten times as many as beside another test are seen for certain.
#[test]
fn objects_in_common_are_watched() {
    /// Their stalls, some 900, and races are added up.
    const RUNS: u32 = 3;
    let built = compile::program(&Program::new("races/objects.c"), Configuration::USUAL).unwrap();
    const STALLS_A_RACE: f64 = 32.0;
    for threads in ["2", "6"] {
        let [mut met, mut stalls, mut races] = [0.0; 3];
        for run in 1..=RUNS {
            let outcome = Watch::aggressive()
                .option(&["--strategy", "planner"])
                .run(&built, &["5", threads], Until::End)
                .unwrap();
            let number = |name: &str| outcome.report.number(name);
            met += number("site_waits_met");
            stalls += number("stalls");
            races += number("races_total");
            println!("{threads} threads, run {run}: {met} met, {stalls} stalls, {races} races");
        }
        assert!(met > 0.0 && races > 0.0, "{threads} threads");
        assert!(
            stalls < races * STALLS_A_RACE,
            "{threads} threads: {stalls} stalls, {races} races"
        );
    }
}

/// Check that where one access of a member of objects raced, others of it are found, too: each of twenty functions
/// races with itself alone, so that one race does not lead to the next in any other way.
#[test]
fn members_that_race_are_sought() {
    let built = compile::program(&Program::new("races/members.c"), Configuration::USUAL).unwrap();
    let found = (1..=3).filter(|run| {
        let outcome = Watch::aggressive()
            .option(&["--strategy", "planner"])
            .run(&built, &["5", "2"], Until::End)
            .unwrap();
        let races = outcome.report.races.len();
        println!("run {run}: {races} races");
        races >= 8
    });
    assert_eq!(found.take(2).count(), 2, "not in two of three runs");
}

/// Check that one look at a variable, which holds nobody, tells several of the places that use it: more functions are known to
/// share it than there were looks.
#[test]
fn looks_tell_who_uses_the_bytes() {
    let built = compile::program(&Program::new("silent/users.c"), Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let table = scratch.path().join("coverage.csv");
    // Few looks at a time, or all functions are known in the end; some four functions each are usual.
    let (few, enough) = (1.0..=12.0, 6.0);
    let (mut looks, mut shared) = (0.0, 0.0);
    const LONGEST_MS: f64 = 4000.0;
    let mut duration_ms = 500.0;
    for attempt in 1..=4 * TRIES {
        let time = format!("{duration_ms:.0}ms");
        let outcome = Watch::usual()
            .option(&["--strategy", "planner", "--duration", &time])
            .option(&["--max-overhead", "5%"])
            .option(&["--coverage", table.to_str().unwrap()])
            .run(&built, &["3"], Until::End)
            .unwrap();
        assert!(outcome.report.races.is_empty(), "{outcome:?}");
        let text = fs::read_to_string(&table).unwrap();
        let uses = text.lines().filter(|line| line.contains(",use_"));
        let told = uses.filter(|line| !line.ends_with(",0")).count();
        let these = outcome.report.came_to(": shared");
        println!("try {attempt}: {these} looks have told of {told} functions");
        if few.contains(&these) {
            looks += these;
            shared += told as f64;
        }
        // A machine that has much else to do takes longer to begin with them.
        let times = if these < *few.end() { 1.25 } else { 0.7 };
        duration_ms = f64::min(duration_ms * times, LONGEST_MS);
        if looks >= enough {
            break;
        }
    }
    assert!(looks >= enough, "only {looks} looks");
    assert!(shared > 1.5 * looks, "{shared} functions by {looks} looks");
}

/// Check that who seldom uses a variable that others share is caught, among a hundred functions to which nobody comes.
#[test]
fn who_seldom_uses_what_is_shared_is_caught() {
    let broken = Program::new("silent/glance.c").broken();
    let built = compile::program(&broken, Configuration::USUAL).unwrap();
    let caught = (1..=4 * TRIES).any(|attempt| {
        let outcome = Watch::usual()
            .option(&["--strategy", "planner", "--max-overhead", "3%"])
            // So seldom that it rarely comes while a worker is held.
            .env("PAUSE_MS", "100")
            .run(&built, &["15", "3"], Until::Race)
            .unwrap();
        let races = outcome.report.races.len();
        println!("try {attempt}: {races} races");
        races > 0
    });
    assert!(caught, "not in {} tries", 4 * TRIES);
}

/// Check that who seldom writes a variable that changes all the same is caught, among a hundred functions that
/// write others which never change.
#[test]
fn who_seldom_writes_is_caught() {
    catch_seldom_writer("100", "8");
}

/// Check the same of who writes once a second, as gwp-race looks after the program: that ends no wait.
#[test]
fn who_writes_once_a_second_is_caught() {
    catch_seldom_writer("1000", "20");
}

fn seldom_writer() -> Program {
    Program::new("races/seldom_writer.c")
}

fn catch_seldom_writer(period_ms: &str, seconds: &str) {
    let built = compile::program(&seldom_writer(), Configuration::USUAL).unwrap();
    let caught = (1..=TRIES).any(|attempt| {
        let outcome = Watch::usual()
            .option(&["--strategy", "planner", "--max-overhead", "2%"])
            .env("PERIOD_MS", period_ms)
            .run(&built, &[seconds, "3"], Until::Race)
            .unwrap();
        let races = outcome.report.races.len();
        println!("try {attempt}: {races} races");
        races > 0
    });
    assert!(caught, "not in {TRIES} tries");
}

/// Check that whoever writes a variable once a second by a pointer is seen to, and is caught while readers come. No code that
/// names the variable says who that might be.
#[test]
fn who_writes_by_a_pointer_is_seen() {
    catch_writer_by_pointer("3");
}

/// Check the same with more threads than processors, where the processors' watchpoints are used.
#[test]
fn who_writes_by_a_pointer_is_seen_by_processor() {
    catch_writer_by_pointer("6");
}

fn catch_writer_by_pointer(threads: &str) {
    let program = seldom_writer().flags(&["-DBY_POINTER"]);
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    // Which thread is stalled while the other one comes is a matter of luck.
    let (mut is_seen, mut is_caught) = (false, false);
    let done = (1..=TRIES).any(|attempt| {
        let outcome = Watch::usual()
            .option(&["--strategy", "planner"])
            .env("PERIOD_MS", "1000")
            .run(&built, &["20", threads], Until::End)
            .unwrap();
        let races = outcome.report.races.len();
        let [written, unwritten] = ["written", "unwritten"]
            .map(|came| (outcome.report).came_to(&format!("variable: {came}")));
        println!(
            "try {attempt}: {written} of {} watches have seen a writer, {races} races",
            written + unwritten,
        );
        is_seen |= written > 0.0;
        is_caught |= races > 0;
        is_seen && is_caught
    });
    assert!(
        done,
        "seen: {is_seen}, caught: {is_caught} in {TRIES} tries"
    );
}

/// Check that a stall is noticed for which others wait, because the thread holds a lock, and is charged for them; and that
/// from then on most of those who come while they hold it are spared. Without the lock, nobody waits.
#[test]
fn locks_are_noticed() {
    const SECONDS: [&str; 1] = ["6"];
    let watch = Watch::usual().option(&["--max-overhead", "5%"]);
    let spent = |outcome: &Outcome| {
        let summary = outcome.report.summary.as_ref().unwrap();
        summary["spent_s"]["locks"].as_f64().unwrap()
    };
    let locked = compile::program(&Program::new("silent/mutex.c"), Configuration::USUAL).unwrap();
    let outcome = watch.run(&locked, &SECONDS, Until::End).unwrap();
    let locked = outcome.report.came_to(": locked");
    let held = outcome.report.came_to(": held");
    println!("{locked} locked, {} s, {held} spared", spent(&outcome));
    assert!(outcome.report.races.is_empty(), "{outcome:?}");
    assert!(locked > 0.0 && held > 0.0, "{outcome:?}");
    assert!(spent(&outcome) > 0.0);

    let broken = Program::new("silent/mutex.c").broken();
    let broken = compile::program(&broken, Configuration::USUAL).unwrap();
    let outcome = watch.run(&broken, &SECONDS, Until::End).unwrap();
    assert!(!outcome.report.races.is_empty(), "{outcome:?}");
    for what in [": locked", ": held"] {
        assert!(outcome.report.came_to(what) <= 0.0, "{outcome:?}");
    }
    assert!(spent(&outcome) <= 0.0);
}

/// Check that a thread for whose end another one waits is not taken for one that holds a lock.
#[test]
fn who_is_joined_holds_no_lock() {
    let built = compile::program(&Program::new("races/joined.c"), Configuration::USUAL).unwrap();
    let outcome = Watch::usual()
        .option(&["--max-overhead", "5%"])
        .run(&built, &["6"], Until::End)
        .unwrap();
    let [locked, held] = [": locked", ": held"].map(|what| outcome.report.came_to(what));
    println!("{locked} locked, {held} spared");
    assert!(!outcome.report.races.is_empty(), "{outcome:?}");
    assert!(locked + held <= 0.0, "{outcome:?}");
}

/// Check that looking who uses the bytes leaves nothing armed behind: a loop over private memory is looked at, then left
/// alone, and the traps stay within the budget.
#[test]
fn looks_leave_nothing_armed() {
    let built = compile::program(&Program::new("limits/private.c"), Configuration::USUAL).unwrap();
    let outcome = Watch::usual()
        .option(&["--strategy", "planner"])
        .run(&built, &["8"], Until::End)
        .unwrap();
    let summary = outcome.report.summary.as_ref().unwrap();
    println!(
        "{}, {} %",
        summary["decisions"], summary["slowdown_percent"]
    );
    assert!(outcome.report.number("site_waits") > 0.0);
    // What a breakpoint that stays armed costs is ten times that.
    assert!(outcome.report.number("slowdown_percent") < 4.0);
}

/// Check that a stop that never comes silences no strategy: the thread's claim is void after a while, and others are
/// claimed again.
#[test]
fn lost_stops_silence_nothing() {
    /// How long the fixture tries, and then goes on.
    const SECONDS: &str = "20";
    /// Decisions after the loss.
    const MORE: usize = 20;
    const LIMIT: Duration = Duration::from_secs(60);
    let built =
        compile::program(&Program::new("conduct/lost_stop.c"), Configuration::USUAL).unwrap();
    for strategy in ["planner", "clock"] {
        let happened = (1..=TRIES).any(|attempt| {
            let scratch = tempfile::tempdir().unwrap();
            let mut command = Command::new(&built);
            let command = command.arg(SECONDS).stdout(Stdio::piped());
            let mut program = Guarded::new(command.spawn().unwrap());
            let mut command = Watch::aggressive()
                .option(&["-v", "--strategy", strategy])
                .attach_command(program.pid(), &scratch.path().join("report"));
            command.stderr(Stdio::piped());
            let mut gwp_race = Guarded::new(command.spawn().unwrap());
            let decisions = BufReader::new(gwp_race.child().stderr.take().unwrap());
            let seen = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&seen);
            std::thread::spawn(move || {
                for _ in decisions.lines().map_while(Result::ok) {
                    counted.fetch_add(1, SeqCst);
                }
            });
            let mut said = String::new();
            let mut stdout = BufReader::new(program.child().stdout.take().unwrap());
            stdout.read_line(&mut said).unwrap();
            if said != "stuck\n" {
                println!("{strategy}: try {attempt}: {said}");
                return false;
            }
            let before = seen.load(SeqCst);
            while program.ended().unwrap().is_none() && seen.load(SeqCst) < before + MORE {
                sleep(Duration::from_millis(50));
            }
            // Where it still runs, all is shown.
            let _ = kill(program.pid(), Signal::SIGTERM);
            program.wait(LIMIT).unwrap();
            gwp_race.wait(LIMIT).unwrap();
            let after = seen.load(SeqCst);
            println!(
                "{strategy}: try {attempt}: {before} decisions, then {}",
                after - before
            );
            assert!(after >= before + MORE);
            true
        });
        assert!(happened, "no stop was lost in {TRIES} tries");
    }
}

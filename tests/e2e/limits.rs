//! What gwp-race costs is bounded, whatever the program does.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::unistd::Pid;

use gwp_race_tests::{
    Configuration, Outcome, Program, Report, Until, Watch,
    children::{Guarded, descendants, executes, threads},
    compile,
    machine::Machine,
};

use crate::usage::{self, Usage};

/// Traps after which a stall ends, and with those that come until it has ended.
const LEAST_HITS: f64 = 64.0;
const MOST_HITS: f64 = LEAST_HITS + 64.0;
/// Tries until a variable is watched.
const TRIES: u32 = 5;
/// What a gwp-race may use of memory, all its processes together.
const MOST_PSS_KIB: u64 = 80 << 10;
/// The server's size.
const THREADS: usize = 1000;
const MEGABYTES: &str = "300";
/// How long it may take until all its threads run, and a race was caught.
const LIMIT: Duration = Duration::from_secs(60);

/// Check that a watchpoint on an address that is accessed all the time is taken away after a bounded
/// number of hits: of a stall of 10 ms, in which some hundred accesses could trap, a few remain.
#[test]
fn busy_addresses_are_let_go() {
    let program = Program::new("limits/busy_address.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let Outcome { report, .. } = Watch::aggressive()
        .option(&["--stall", "10ms", "--stop-deadline", "500ms"])
        .run(&program, &["4", "2"], Until::End)
        .unwrap();
    let stalls = report.number("stalls");
    let hits = report.number("hits");
    let cut_short = report.number("stalls_cut_short");
    println!("{stalls} stalls, {cut_short} of them cut short, {hits} hits");
    assert!(cut_short > 0.0);
    assert!(hits <= stalls * MOST_HITS);
    assert!(report.races.is_empty(), "{:?}", report.races);
}

/// Check the same of a variable that is watched for who writes it, which holds nobody: of half a second, in which many thousands
/// of accesses could trap, a few remain.
#[test]
fn busy_variables_are_let_go() {
    let program = Program::new("limits/busy_address.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let is_watched = (1..=TRIES).any(|attempt| {
        let Outcome { report, stderr, .. } = Watch::usual()
            .option(&["--strategy", "planner", "-vv"])
            .run(&program, &["10", "3"], Until::End)
            .unwrap();
        let watches = report.came_to("variable: unwritten") + report.came_to("variable: written");
        let looks =
            ["shared", "private", "unused"].map(|seen| report.came_to(&format!(": {seen}")));
        let looks = watches + looks.iter().sum::<f64>();
        let traps = gate_counter(&stderr, "share-traps");
        println!("try {attempt}: {watches} watches, {traps} traps in {looks} looks");
        assert!(traps <= looks * MOST_HITS);
        watches > 0.0 && traps >= LEAST_HITS
    });
    assert!(is_watched, "not in {TRIES} tries");
}

/// Check that threads which live shortly cost no more than the budget, however many there are, and that they are caught all the same.
/// (To take in each of them would cost a quarter of the program's time.)
#[test]
fn brief_threads_are_within_the_budget() {
    const TRIES: u32 = 6;
    const BUDGET_PERCENT: f64 = 5.0;
    let program = Program::new("races/brief_threads.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let is_caught = (1..=TRIES).any(|attempt| {
        let outcome = Watch::usual()
            .option(&["--max-overhead", &format!("{BUDGET_PERCENT}%")])
            .run(&program, &["15", "3"], Until::End)
            .unwrap();
        let report = &outcome.report;
        let [created, left, slowdown] = ["threads_created", "threads_left_alone", "slowdown_percent"]
            .map(|name| report.number(name));
        println!(
            "try {attempt}: {} races; {left} of {created} threads left alone; slowdown {slowdown} %",
            report.races.len()
        );
        assert!(created > 10_000.0, "{created}");
        assert!(left > created / 2.0 && left < created, "{left} of {created}");
        // By what was counted and by CPU times, which differ with what else the machine does.
        assert!(slowdown < 2.0 * BUDGET_PERCENT, "{slowdown} %: {:?}", report.summary);
        report.races.iter().any(|race| race.has_function("increment"))
    });
    assert!(is_caught, "not in {TRIES} tries");
}

/// Check that a program's own signals, each of which stops whoever is traced, cost no more than the budget, however many there are: its
/// threads are let alone for most of the time. Each signal is delivered once all the same, and what such a thread executes then is watched.
#[test]
fn own_signals_are_within_the_budget() {
    const BUDGET_PERCENT: f64 = 2.0;
    /// Fewer signals would not have to cost more than the budget.
    const LEAST: f64 = 500.0;
    let program = Program::new("limits/own_signals.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    for how in ["raise", "fork", "other"] {
        let is_caught = (1..=TRIES).any(|attempt| {
            let Outcome { report, stdout, status, .. } = Watch::usual()
                // What is left of so small a budget on a busy machine is not enough to catch anybody in three seconds.
                .alone()
                .option(&["--max-overhead", &format!("{BUDGET_PERCENT}%"), "--follow-forks", "no"])
                .run(&program, &["3", how], Until::End)
                .unwrap();
            assert!(status.success(), "{how}: {status:?}: {stdout}");
            let sent: f64 = stdout.split(' ').next().unwrap_or_default().parse().unwrap();
            let [stops, times, alone_s] = ["own_stops", "times_let_alone", "let_alone_s"]
                .map(|name| report.number(name));
            println!(
                "{how}, try {attempt}: {stops} stops for {sent} signals; let alone {times} times, for {alone_s} s; {} races",
                report.races.len()
            );
            assert!(sent > LEAST, "{how}: {sent}");
            assert!(times > 0.0 && alone_s > 1.0, "{how}: {times} times, {alone_s} s");
            // Without a bound each signal is a stop. What is advanced pays for some of them.
            assert!(stops < sent / 2.0, "{how}: {stops} of {sent}");
            report.races.iter().any(|race| race.has_function("increment"))
        });
        assert!(is_caught, "{how}: not in {TRIES} tries");
    }
}

/// Check that probes at code that is executed all the time, as often as can be, cost no more than the budget: they are armed there, and let alone what proves hot.
#[test]
fn hot_code_is_within_the_budget() {
    const BUDGET_PERCENT: f64 = 5.0;
    /// How often each place is executed at least: with probes there all the time, of which each takes 0.4 us, two threads would need minutes for it.
    const LEAST_ROUNDS: f64 = 1e6;
    let program = Program::new("limits/hot_code.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let is_probed = (1..=TRIES).any(|attempt| {
        let Outcome { report, stdout, status, stderr, .. } = Watch::usual()
            .alone()
            .option(&["--max-overhead", &format!("{BUDGET_PERCENT}%")])
            .option(&["--strategy", "planner", "--probes", "yes"])
            .run(&program, &["12", "2"], Until::End)
            .unwrap();
        assert!(status.success(), "{status:?}: {stdout}{stderr}");
        let rounds = stdout.lines().find_map(|line| line.strip_suffix(" rounds"));
        let rounds: f64 = rounds.unwrap_or_default().parse().unwrap();
        let [bursts, hits, armed, hot, slowdown] =
            ["probe_bursts", "probe_hits", "probes_armed", "probes_hot", "slowdown_percent"]
                .map(|name| report.number(name));
        println!(
            "try {attempt}: {bursts} bursts with {hits} hits, {armed} probes stood, {hot} hot, in {rounds} rounds; slowdown {slowdown} %"
        );
        assert!(rounds > LEAST_ROUNDS, "{rounds}");
        // By what was counted and by CPU times, which differ with what else the machine does.
        assert!(slowdown < 2.0 * BUDGET_PERCENT, "{slowdown} %: {:?}", report.summary);
        bursts > 0.0 && hits > 0.0 && hot > 0.0
    });
    assert!(is_probed, "not in {TRIES} tries");
}

/// What the gates have counted, as `-vv` tells at the end.
fn gate_counter(stderr: &str, name: &str) -> f64 {
    let name = format!("\"{name}\": ");
    let counts = stderr.match_indices(&name).filter_map(|(at, _)| {
        let number = stderr.get(at + name.len()..)?;
        let end = number.find(|c: char| !c.is_ascii_digit())?;
        number.get(..end)?.parse::<f64>().ok()
    });
    counts.fold(0.0, |sum, count| sum + count)
}

/// Runs a large program with gwp-race in some way, until a race was caught.
fn watch_large(begin: impl FnOnce(&std::path::Path, &std::path::Path) -> Vec<Guarded>) {
    let program = Program::new("limits/large.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let output = scratch.path().join("report.json");
    let start = Instant::now();
    let processes = begin(&program, &output);
    let gwp_race = processes[0].pid();
    let mut most: Option<Usage> = None;
    let mut processes_seen = 0;
    let mut after_race = 0;
    // A few seconds beyond the first report: its explanation is what takes memory.
    while after_race < 20 {
        assert!(start.elapsed() < LIMIT, "no race was caught: {most:?}");
        std::thread::sleep(Duration::from_millis(100));
        let usage = usage::look(gwp_race, start);
        processes_seen = processes_seen.max(usage.processes);
        if most.is_none_or(|most| most.pss_kib < usage.pss_kib) {
            most = Some(usage);
        }
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        let caught = Report::read(&text).is_ok_and(|report| !report.races.is_empty());
        after_race += u32::from(caught);
    }
    println!("{most:?}");
    let most = most.unwrap();
    assert!(processes_seen >= 3, "{processes_seen}");
    assert!(most.pss_kib <= MOST_PSS_KIB, "{most:?}");
}

/// Check that gwp-race stays small beside a program of 1,000 threads and 300 MB, under `run`.
#[test]
fn memory_is_bounded_in_run() {
    watch_large(|program, output| {
        let arguments = ["60", &THREADS.to_string(), MEGABYTES];
        let mut command = Watch::aggressive().run_command(program, &arguments, output);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        vec![Guarded::new(command.spawn().unwrap())]
    });
}

/// The same with `attach`, where each thread has events of its own.
#[test]
fn memory_is_bounded_in_attach() {
    watch_large(|program, output| {
        let server = Command::new(program)
            .args(["60", &THREADS.to_string(), MEGABYTES])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Guarded::new(server);
        let start = Instant::now();
        while threads(server.pid()).count() <= THREADS {
            assert!(start.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut command = Watch::aggressive().attach_command(server.pid(), output);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        vec![Guarded::new(command.spawn().unwrap()), server]
    });
}

/// How long it takes to have the kernel write down the map of a program that gwp-race has started.
fn time_of_map(gwp_race: Pid, program: &std::path::Path) -> Option<Duration> {
    let below = descendants(gwp_race).into_iter();
    let pid = below.into_iter().find(|&pid| executes(pid, program))?;
    let start = Instant::now();
    std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(start.elapsed())
}

/// Check that a program with very many mappings, of a file with a very long path, of a file that is no program or of none, costs gwp-race neither
/// much memory nor much time, makes it say little, and has its race caught all the same.
#[test]
fn many_mappings_cost_little() {
    let _machine = Machine::alone();
    const BUDGET_PERCENT: f64 = 5.0;
    const MOST_SAID: u64 = 16 << 10;
    /// All mappings are there after this.
    const MAPPED: Duration = Duration::from_secs(3);
    /// Those before it is known what they cost, and one before a judgement, each in times of what the kernel alone needs for it.
    const FIRST_LOOKS: f64 = 8.0;
    /// What it takes to begin, with any program.
    const START_S: f64 = 0.3;
    let program = Program::new("limits/many_mappings.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    // The kernel takes half a second to write the first one's map down: a look each second would cost most of the time.
    for (kind, seconds) in [("long", "12"), ("code", "6"), ("anonymous", "6")] {
        let is_caught = (1..=TRIES).any(|attempt| {
            let scratch = tempfile::tempdir().unwrap();
            let [output, errors, folder] =
                ["report.json", "errors", "folder"].map(|name| scratch.path().join(name));
            std::fs::create_dir(&folder).unwrap();
            let arguments = [seconds, "2", kind, folder.to_str().unwrap()];
            let mut command = Watch::usual()
                .option(&["--max-overhead", &format!("{BUDGET_PERCENT}%")])
                .run_command(&program, &arguments, &output);
            let errors_to = std::fs::File::create(&errors).unwrap();
            command.stdout(Stdio::null()).stderr(errors_to);
            let start = Instant::now();
            let mut gwp_race = Guarded::new(command.spawn().unwrap());
            let mut most = 0;
            let mut reading = None;
            while gwp_race.ended().unwrap().is_none() {
                assert!(start.elapsed() < LIMIT, "{kind}: it does not end");
                if start.elapsed() > MAPPED && reading.is_none() {
                    reading = time_of_map(gwp_race.pid(), &program);
                }
                most = most.max(usage::look(gwp_race.pid(), start).pss_kib);
                std::thread::sleep(Duration::from_millis(50));
            }
            let report = Report::read(&std::fs::read_to_string(&output).unwrap()).unwrap();
            let summary = report.summary.as_ref().unwrap();
            let tracer_s = summary["spent_s"]["tracer"].as_f64().unwrap();
            let reading_s = reading.expect("the program was there").as_secs_f64();
            let bound_s = FIRST_LOOKS * reading_s
                + report.number("target_cpu_s") * BUDGET_PERCENT / 100.0
                + START_S;
            let said = std::fs::metadata(&errors).unwrap().len();
            println!(
                "{kind}, try {attempt}: {} races; {most} KiB; {tracer_s:.2} s of CPU time of at most {bound_s:.2}, where the kernel \
                 needs {reading_s:.3} s for the map; {said} bytes said",
                report.races.len()
            );
            assert!(most <= MOST_PSS_KIB, "{kind}: {most} KiB");
            assert!(tracer_s < bound_s, "{kind}: {summary:?}");
            assert!(said < MOST_SAID, "{kind}: {said} bytes");
            report.races.iter().any(|race| race.has_function("increment"))
        });
        assert!(is_caught, "{kind}: not in {TRIES} tries");
    }
}

/// Check that a program which is given a processor all the time has its events on the processors, where they cost it
/// nothing then, and that one which computes keeps them on its few threads.
#[test]
fn events_of_programs_that_switch() {
    /// Another program may be watched so, which another test has started; then it is tried again after half a minute.
    const LIMIT: Duration = Duration::from_secs(120);
    const BY_CPU: &str = "watched by processor";
    let switches =
        compile::program(&Program::new("bench/switches.c"), Configuration::USUAL).unwrap();
    let seconds = LIMIT.as_secs().to_string();
    let scratch = tempfile::tempdir().unwrap();
    let said = |program: Pid, time: Duration| {
        let duration = format!("{}s", time.as_secs());
        // Threads of a program that computes are given processors often, too, where other tests run as well.
        let mut command = Watch::usual()
            .option(&["-vv", "--max-overhead", "20%", "--duration", &duration])
            .attach_command(program, &scratch.path().join("report"));
        let mut gwp_race = Guarded::new(command.stderr(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(gwp_race.child().stderr.take().unwrap()).lines();
        let by_cpu = lines
            .map_while(Result::ok)
            .find(|line| line.contains(BY_CPU));
        println!("{by_cpu:?}");
        by_cpu.is_some()
    };

    let mut client = Command::new(&switches);
    let client = client.args(["ask", &seconds]);
    let client = client.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Guarded::new(client.stderr(Stdio::null()).spawn().unwrap());
    let (questions, answers) = (client.child().stdout.take(), client.child().stdin.take());
    let mut server = Command::new(&switches);
    let server = server.args(["serve", "2"]).stdin(questions.unwrap());
    let server = Guarded::new(server.stdout(answers.unwrap()).spawn().unwrap());
    assert!(said(server.pid(), LIMIT));
    drop((server, client));

    let hot = compile::program(&Program::new("races/many_threads.c"), Configuration::USUAL);
    let mut hot = Command::new(hot.unwrap());
    let hot = Guarded::new(hot.args([&seconds, "2"]).spawn().unwrap());
    assert!(!said(hot.pid(), Duration::from_secs(8)));
}

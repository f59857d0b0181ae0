//! Debug information that gets the better of whoever reads it.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::unistd::Pid;

use gwp_race_tests::{
    Configuration, Outcome, Program, Until, Watch,
    binary::gwp_race_faulty,
    children::{Guarded, descendants, status_field},
    compile,
    report::Race,
};

/// Tries until a race is caught.
const TRIES: u32 = 5;
const LIMIT: Duration = Duration::from_secs(60);

/// Check that a library whose file ends all that read it, in whatever way, costs neither the program nor gwp-race anything: its races are
/// told, by addresses, with the reason; the program's own functions have their names.
#[test]
fn hostile_files_cost_symbols_only() {
    // The build ids are "misdeed crash", "misdeed eat" and "misdeed open", which a gwp-race for tests does where such a file is read.
    for (flag, expected) in [
        ("-Wl,--build-id=0x6d697364656564206372617368", "signal 11"),
        ("-Wl,--build-id=0x6d69736465656420656174", "64 MiB"),
        (
            "-Wl,--build-id=0x6d697364656564206f70656e",
            "what it may not",
        ),
    ] {
        let flags: &'static [&'static str] = Box::leak(Box::new([flag]));
        let library = Program::new("libs/counter.c").flags(flags);
        let program = Program::new("races/shared_library.c").library(library);
        let program = compile::program(&program, Configuration::USUAL).unwrap();
        let is_caught = (1..=TRIES).any(|attempt| {
            let outcome = Watch::aggressive()
                .binary(gwp_race_faulty())
                .run(&program, &["20"], Until::Race)
                .unwrap();
            println!("{expected}, try {attempt}: {:?}", outcome.report.summary);
            let Some(race) = outcome.report.races.first() else {
                return false;
            };
            check(race, &outcome, expected);
            true
        });
        assert!(is_caught, "not in {TRIES} tries");
    }
}

fn check(race: &Race, outcome: &Outcome, expected: &str) {
    for access in &race.accesses {
        let frame = access.stack.first().unwrap();
        let module = frame.module.as_deref().unwrap();
        assert!(module.contains("counter"), "{race:?}");
        assert_eq!((&frame.function, frame.line), (&None, None), "{race:?}");
    }
    let told = |note: &&String| note.contains("addresses only") && note.contains(expected);
    assert_eq!(race.notes.iter().filter(told).count(), 1, "{race:?}");
    let report = &outcome.report;
    assert_eq!(report.number("readers_ended"), 3.0, "{report:?}");
    let warnings = outcome.stderr.matches("addresses only").count();
    assert_eq!(warnings, 1, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

/// Check that whoever reads debug information has no rights while a program is watched, and that the reader's end costs nothing.
#[test]
fn readers_have_no_rights() {
    let program = Program::new("races/many_threads.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let output = scratch.path().join("report");
    let watch = Watch::aggressive().option(&["--duration", "20s"]);
    let mut command = watch.run_command(&program, &["20", "4"], &output);
    command.stdout(std::process::Stdio::null());
    let mut gwp_race = Guarded::new(command.spawn().unwrap());
    let start = Instant::now();
    let reader = loop {
        // Those of a tracer are there for a moment only.
        let parent = gwp_race.pid().to_string();
        let is_it = |&pid: &Pid| {
            let is = |name, value| status_field(pid, name).as_deref() == Some(value);
            is("Name", "gwp-race-reader") && is("PPid", &parent)
        };
        if let Some(reader) = descendants(gwp_race.pid()).into_iter().find(is_it) {
            break reader;
        }
        assert!(start.elapsed() < LIMIT, "nobody reads");
        std::thread::sleep(Duration::from_millis(1));
    };
    let field = |name| status_field(reader, name);
    // Until it has given up all.
    while field("Seccomp").as_deref() != Some("2") {
        assert!(start.elapsed() < LIMIT, "{:?}", field("Seccomp"));
        std::thread::sleep(Duration::from_millis(1));
    }
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(capabilities).as_deref(), Some("0000000000000000"));
    }
    assert_eq!(field("NoNewPrivs").as_deref(), Some("1"));
    assert_eq!(field("Threads").as_deref(), Some("1"));
    for entry in fs::read_dir(format!("/proc/{reader}/fd")).unwrap() {
        // It may be closed by now.
        if let Ok(link) = fs::read_link(entry.unwrap().path()) {
            let name = link.to_string_lossy().into_owned();
            let is_file = name.starts_with('/') && name != "/dev/tty";
            assert!(is_file || name.starts_with("socket:"), "{name}");
        }
    }
    println!(
        "{:?} resident, {:?} at most, {:?} its own",
        field("VmRSS"),
        field("VmHWM"),
        field("RssAnon")
    );
    let _ = nix::sys::signal::kill(gwp_race.pid(), nix::sys::signal::Signal::SIGTERM);
    gwp_race.wait(LIMIT).unwrap();
    assert!(
        !fs::exists(format!("/proc/{reader}")).unwrap(),
        "it is left behind"
    );
}

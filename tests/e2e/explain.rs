//! The commands that explain: what a file carries, what the machine allows.

use std::process::{Command, Output};

use gwp_race_tests::report::Location;
use gwp_race_tests::{Compiler, Configuration, Program, Until, Watch, binary::gwp_race, compile};

fn output(words: &[&str]) -> Output {
    Command::new(gwp_race()).args(words).output().unwrap()
}

fn stdout(words: &[&str]) -> String {
    let output = output(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Check that inspect tells the versions of the two compilers' metadata apart, and lists what the
/// source has.
#[test]
fn inspect_names_what_a_file_carries() {
    let program = Program::new("races/plain_atomic.c");
    for (compiler, version) in [
        (Compiler::Clang22, "version 2"),
        (Compiler::Clang16, "version 1"),
    ] {
        let configuration = Configuration {
            compiler,
            ..Configuration::USUAL
        };
        let built = compile::program(&program, configuration).unwrap();
        let path = built.to_str().unwrap();
        let summary = stdout(&["inspect", path]);
        assert!(summary.contains(version), "{summary}");
        let list = stdout(&["inspect", "--list", path]);
        for function in ["add", "reset", "main"] {
            let named = |line: &str| line.contains("function") && line.ends_with(function);
            assert!(list.lines().any(named), "{function} is missing: {list}");
        }
        let atomic = |line: &str| {
            line.contains("atomic") && (line.ends_with(" add") || line.contains(" add+"))
        };
        assert!(list.lines().any(atomic), "the addition is missing: {list}");
    }
}

/// Check that a report names the basic blocks of its accesses, and the values that a stack map tells of.
#[test]
fn reports_tell_of_blocks_and_live_values() {
    let program = Program::new("races/code_tables.c").flags(&["-fbasic-block-address-map"]);
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let number = |text: &serde_json::Value| {
        let digits = text.as_str().and_then(|text| text.strip_prefix("0x"));
        u64::from_str_radix(digits.unwrap(), 16).unwrap()
    };
    for attempt in 1..=5 {
        let outcome = Watch::aggressive()
            .run(&built, &["20"], Until::Race)
            .unwrap();
        let Some(race) = outcome.report.races.first() else {
            println!("try {attempt}: {:?}", outcome.report.summary);
            continue;
        };
        for access in &race.accesses {
            let block = access.block.as_ref().unwrap();
            let pc = number(&access.pc.clone().into());
            let (start, size) = (number(&block["address"]), block["size"].as_u64().unwrap());
            assert!((start..start + size).contains(&pc), "{race:?}");
            // The function begins with another one.
            assert_ne!(block["number"], 0, "{race:?}");
        }
        let [stalled, _] = &race.accesses;
        let [turn, seven] = &stalled.live_values[..] else {
            panic!("{race:?}");
        };
        assert_eq!(turn["record"], 42);
        assert_eq!(number(&turn["value"]) & 1, 1, "{race:?}");
        assert_eq!(
            (&seven["place"], number(&seven["value"])),
            (&"constant".into(), 7)
        );
        return;
    }
    panic!("nothing was caught");
}

/// Check that a stripped program carries the same, without the names.
#[test]
fn metadata_survives_stripping() {
    let program = Program::new("races/plain_atomic.c");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let stripped = scratch.path().join("stripped");
    let strip = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(&built)
        .status()
        .unwrap();
    assert!(strip.success());
    let counts = |path: &std::path::Path| -> Vec<String> {
        let summary = stdout(&["inspect", path.to_str().unwrap()]);
        let of_interest = |line: &&str| line.contains("functions") || line.contains("atomics ");
        summary
            .lines()
            .filter(of_interest)
            .map(ToOwned::to_owned)
            .collect()
    };
    assert!(!counts(&built).is_empty());
    assert_eq!(counts(&built), counts(&stripped));
}

/// Check that a file without metadata is an error that says how to build it.
#[test]
fn a_file_without_metadata_is_an_error() {
    for command in ["inspect", "doctor"] {
        let output = output(&[command, "/bin/true"]);
        assert!(!output.status.success());
        let text = [output.stdout, output.stderr].concat();
        assert!(
            String::from_utf8_lossy(&text).contains("-fexperimental-sanitize-metadata=atomics")
        );
    }
}

/// Check that doctor finds this machine, on which the other tests catch races, able to.
#[test]
fn doctor_finds_the_machine_able() {
    let program = Program::new("races/plain_atomic.c");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    assert!(output(&["doctor"]).status.success());
    assert!(
        output(&["doctor", built.to_str().unwrap()])
            .status
            .success()
    );
}

/// Check that the help of each command has examples.
#[test]
fn help_has_examples() {
    for command in ["run", "attach", "inspect", "doctor"] {
        let help = stdout(&[command, "--help"]);
        assert!(help.contains("gwp-race "), "{command}: {help}");
    }
}

/// Where the first race of a program is that is caught.
fn location_of_a_race(source: &'static str) -> Location {
    /// Catching a race takes luck.
    const TRIES: u32 = 5;
    let built = compile::program(&Program::new(source), Configuration::USUAL).unwrap();
    let caught = (1..=TRIES).find_map(|attempt| {
        let outcome = Watch::aggressive()
            .run(&built, &["20"], Until::Race)
            .unwrap();
        println!("try {attempt}: {:?}", outcome.report.summary);
        outcome.report.races.into_iter().next()
    });
    caught.expect("the race is caught").location
}

/// Check that memory which malloc has given is told as a block with its size, how far into it the bytes are, and what the pointer leads to by which it was
/// accessed.
#[test]
fn reports_tell_of_blocks_of_the_heap() {
    let location = location_of_a_race("races/heap_block.c");
    assert_eq!(location.kind, "heap-block");
    // 104 bytes were asked for, which is what a block of that size has.
    assert_eq!((location.offset, location.size), (Some(40), Some(104)));
    let object = serde_json::json!({"type": "counters", "member": ".hits"});
    assert_eq!(location.object, Some(object));
}

/// Check that a variable on a stack is told with the function that it is of, where another one that was called by that accesses it.
#[test]
fn reports_tell_of_variables_on_stacks() {
    let location = location_of_a_race("races/other_stack.c");
    assert_eq!(location.kind, "stack");
    assert_eq!(location.variable.as_deref(), Some("mine"));
    assert_eq!(location.function.as_deref(), Some("owner"));
}

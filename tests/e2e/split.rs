//! Functions that the compiler has laid out in several parts, and code of the same file that is not analyzed.

use std::process::Command;

use gwp_race_tests::{Compiler, Configuration, Program, Until, Watch, compile};

/// Catching a race takes luck: so many tries it may take.
const TRIES: u32 = 5;

/// Check that a race in the rare part of a split function is caught and named, with and without symbols.
#[test]
fn races_in_cold_parts() {
    for (compiler, flags) in [
        (Compiler::Clang22, &["-fbasic-block-sections=all"][..]),
        (Compiler::Clang16, &["-fbasic-block-sections=all"]),
        (
            Compiler::Clang22,
            &["-fbasic-block-sections=all", "-fbasic-block-address-map"],
        ),
    ] {
        let program = Program {
            flags: &[],
            ..Program::new("races/cold_part.c")
        };
        let program = Program { flags, ..program };
        let configuration = Configuration {
            compiler,
            ..Configuration::USUAL
        };
        let split = compile::program(&program, configuration).unwrap();
        let race = (1..=TRIES).find_map(|attempt| {
            let outcome = Watch::aggressive()
                .run(&split, &["10"], Until::Race)
                .unwrap();
            println!(
                "{compiler:?} {flags:?}: try {attempt}: {:?}",
                outcome.first_race_s
            );
            outcome.report.races.into_iter().next()
        });
        let race =
            race.unwrap_or_else(|| panic!("{compiler:?} {flags:?}: not caught in {TRIES} tries"));
        for access in &race.accesses {
            let function = access
                .stack
                .first()
                .and_then(|frame| frame.function.as_deref());
            assert_eq!(function, Some("count_rare"), "{race:?}");
            assert!(!access.atomic);
        }
    }
}

/// Check that the same is caught in a stripped program, where the part has a frame of its own.
#[test]
fn races_in_cold_parts_of_stripped_programs() {
    let program = Program::new("races/cold_part.c").flags(&["-fbasic-block-sections=all"]);
    let split = compile::program(&program, Configuration::USUAL).unwrap();
    let stripped = split.with_extension("stripped");
    let status = Command::new("strip")
        .arg(&split)
        .arg("-o")
        .arg(&stripped)
        .status();
    assert!(status.unwrap().success());
    let caught = (1..=TRIES).any(|attempt| {
        let outcome = Watch::aggressive()
            .run(&stripped, &["10"], Until::Race)
            .unwrap();
        println!("try {attempt}: {:?}", outcome.first_race_s);
        !outcome.report.races.is_empty()
    });
    assert!(caught, "not caught in {TRIES} tries");
}

/// Check that two variables that race in one line, by one use of a macro, are two races.
#[test]
fn variables_of_one_line_are_told_apart() {
    let program = Program::new("races/callback.c");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let different = (1..=TRIES).any(|attempt| {
        let outcome = Watch::aggressive().run(&built, &["3"], Until::End).unwrap();
        let races = outcome.report.races.iter();
        let lines = |race: &gwp_race_tests::report::Race| {
            let line =
                |access: &gwp_race_tests::report::Access| access.stack.first().and_then(|f| f.line);
            let mut lines: Vec<_> = race.accesses.iter().map(line).collect();
            lines.sort_unstable();
            lines
        };
        let told: Vec<_> = races
            .map(|race| (lines(race), race.fingerprint.clone()))
            .collect();
        println!("try {attempt}: {told:?}");
        told.iter().any(|(lines, fingerprint)| {
            told.iter()
                .any(|(others, other)| lines == others && fingerprint != other)
        })
    });
    assert!(different, "one variable only was told of in {TRIES} tries");
}

/// Check that the share of analyzed code is one of functions, not of files, and that the summary names what takes the
/// rest.
#[test]
fn the_hottest_function_without_metadata_is_named() {
    let program = Program::new("bench/elsewhere.c");
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let outcome = Watch::usual()
        .option(&["--sample-period", "1ms"])
        .run(&built, &["2"], Until::End)
        .unwrap();
    let summary = outcome.report.summary.expect("a summary");
    let percent = summary["analyzed_percent"].as_f64().expect("a number");
    let hottest = &summary["hottest_unanalyzed"];
    assert!(percent < 20.0, "{summary}");
    assert_eq!(hottest["function"], "crunch", "{summary}");
    assert!(
        hottest["percent"].as_f64().expect("a number") > 50.0,
        "{summary}"
    );
}

/// Check that analyzed code counts as such from the first sample on, also where it was executed before the modules were
/// read: in a program of which all is analyzed, none of its own functions is told as not analyzed.
#[test]
fn what_ran_before_the_modules_were_read_is_analyzed() {
    let program = Program::new("races/cold_part.c").flags(&["-fbasic-block-sections=all"]);
    let built = compile::program(&program, Configuration::USUAL).unwrap();
    let outcome = Watch::aggressive().run(&built, &["1"], Until::End).unwrap();
    let summary = outcome.report.summary.expect("a summary");
    let hottest = &summary["hottest_unanalyzed"];
    println!("{} %, {hottest}", summary["analyzed_percent"]);
    if !hottest.is_null() {
        let module = hottest["module"].as_str();
        let module = module.unwrap_or_else(|| panic!("code in no file: {hottest}"));
        assert!(
            !built.ends_with(module.rsplit('/').next().unwrap_or_default()),
            "{hottest}"
        );
    }
}

//! What makes a build fail that is tested under gwp-race: new races, and that nothing was watched.

use std::path::Path;

use gwp_race_tests::{Configuration, Metadata, Program, Report, Watch, compile};

/// Catching a race takes luck: so many tries it may take.
const TRIES: u32 = 5;
const CODE: &str = "9";

/// The exit code of a gwp-race that runs a program, and what it has written.
fn run(
    options: &[&str],
    program: &Path,
    arguments: &[&str],
    output: &Path,
) -> (Option<i32>, Report) {
    let watch = Watch::aggressive().option(options);
    let status = watch
        .run_command(program, arguments, output)
        .status()
        .unwrap();
    let text = std::fs::read_to_string(output).unwrap();
    (status.code(), Report::read(&text).unwrap())
}

/// Check that a race which the baseline has is told and lets the build pass, that another one does not, and that the report may take the
/// place of the baseline.
#[test]
fn only_new_races_fail_a_build() {
    let folder = tempfile::tempdir().unwrap();
    let [known, other] = ["known.json", "other.json"].map(|name| folder.path().join(name));
    let program = Program::new("races/write_write.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let fails = ["--error-exitcode", CODE, "--min-stalls", "1"];
    let found = (1..=TRIES).any(|attempt| {
        let (code, report) = run(&fails, &program, &["2"], &known);
        println!("try {attempt}: {} races", report.races.len());
        let is_found = !report.races.is_empty();
        assert_eq!(code, Some(if is_found { 9 } else { 0 }));
        is_found
    });
    assert!(found, "not caught in {TRIES} tries");
    let baseline = ["--baseline", known.to_str().unwrap()];
    let again = (1..=TRIES).any(|attempt| {
        let options = [&fails[..], &baseline, &["--halt-on-race"]].concat();
        // What is found in vain is known the next time, as the report takes the place of the baseline.
        let (code, report) = run(&options, &program, &["2"], &other);
        let known = report.races.iter().filter(|race| race.known).count();
        let new = report.races.len() - known;
        println!("try {attempt}: {known} known, {new} new");
        assert_eq!(code, Some(if new > 0 { 9 } else { 0 }));
        assert_eq!(report.number("races_unique") as usize, new);
        assert_eq!(report.number("races_known") as usize, known);
        known > 0
    });
    assert!(again, "not caught again in {TRIES} tries");
    let another = Program::new("races/read_write.c");
    let another = compile::program(&another, Configuration::USUAL).unwrap();
    let new = (1..=TRIES).any(|_| {
        let options = [&fails[..], &baseline].concat();
        let (code, report) = run(&options, &another, &["2"], &other);
        assert!(report.races.iter().all(|race| !race.known));
        code == Some(9)
    });
    assert!(new, "not caught in {TRIES} tries");
}

/// Check the exit codes of programs that carry no metadata, or end before anybody has watched them.
#[test]
fn nothing_watched_fails_a_build() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("races.json");
    let short = Program::new("conduct/ends_at_once.c");
    let covered = compile::program(&short, Configuration::USUAL).unwrap();
    let bare = short.metadata(Metadata::None);
    let bare = compile::program(&bare, Configuration::USUAL).unwrap();
    let shell = Path::new("/bin/sh");
    let by_shell = [&covered, &bare].map(|program| format!("{}; exit 0", program.display()));
    let code = |options: &[&str], program: &Path, arguments: &[&str]| {
        run(options, program, arguments, &output).0
    };
    let fails = ["--error-exitcode", CODE];
    assert_eq!(code(&fails, &bare, &[]), Some(67));
    assert_eq!(code(&["--require-metadata"], &bare, &[]), Some(67));
    assert_eq!(code(&[], &bare, &[]), Some(0));
    assert_eq!(
        code(
            &["--error-exitcode", CODE, "--require-metadata=no"],
            &bare,
            &[]
        ),
        Some(0)
    );
    assert_eq!(code(&fails, &covered, &[]), Some(0));
    assert_eq!(code(&["--min-stalls", "1000"], &covered, &[]), Some(68));
    assert_eq!(code(&fails, shell, &["-c", &by_shell[0]]), Some(0));
    assert_eq!(code(&fails, shell, &["-c", &by_shell[1]]), Some(67));
    // What a program itself says that has failed says more.
    assert_eq!(code(&fails, shell, &["-c", "exit 3"]), Some(3));
}

//! Reports in the forms of other tools, which are asked what they make of them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{Configuration, Program, binary::gwp_race, compile, watch::AGGRESSIVE};
use serde_json::Value;

/// Tries that a race takes at most.
const TRIES: usize = 5;

fn program() -> PathBuf {
    compile::program(&Program::new("conduct/many_races.c"), Configuration::USUAL).unwrap()
}

/// Runs the program, which has eight races, with these options.
fn run(options: &[&str], seconds: &str) -> Output {
    let mut command = Command::new(gwp_race());
    command.arg("run").args(AGGRESSIVE).args(options);
    command.arg("--").arg(program()).args([seconds, "2"]);
    command.stdin(Stdio::null()).output().unwrap()
}

fn export(format: &str, options: &[&str], file: &Path) -> Output {
    let mut command = Command::new(gwp_race());
    command.args(["export", "--format", format]).args(options);
    command.arg(file).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn results(document: &Value) -> &Vec<Value> {
    document["runs"][0]["results"].as_array().unwrap()
}

/// Check that a run writes a SARIF document with what it has found, at lines of the program's source; the folder of which it is told names them; and that a disk which
/// is full costs no race: those are told on standard error.
#[test]
fn sarif_of_a_run() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("races.sarif");
    let name = file.to_str().unwrap();
    let source = program_source();
    let root = source.parent().unwrap().to_str().unwrap();
    let found = (0..TRIES).any(|_| {
        let output = run(
            &["--format", "sarif", "-o", name, "--source-root", root],
            "2",
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(document["version"], "2.1.0");
        for result in results(&document) {
            let at = &result["locations"][0]["physicalLocation"];
            assert_eq!(at["artifactLocation"]["uri"], "many_races.c", "{result}");
            assert!(at["region"]["startLine"].as_u64().unwrap() > 0);
            let flows = result["codeFlows"][0]["threadFlows"].as_array();
            assert_eq!(flows.unwrap().len(), 2);
        }
        println!("{} results", results(&document).len());
        !results(&document).is_empty()
    });
    assert!(found);
    let told = (0..TRIES).any(|_| {
        let output = run(&["--format", "sarif", "-o", "/dev/full"], "2");
        let said = text(&output.stderr);
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(output.status.code(), Some(125), "{said}");
        said.contains("WARNING: gwp-race: data race")
    });
    assert!(told);
}

/// Where the program's source is.
fn program_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/conduct/many_races.c")
}

/// Check that what was written as JSON can be had in each other form, also of a run that was killed in the middle of a record, which is told; and that something else is
/// refused.
#[test]
fn json_in_other_forms() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("races.json");
    let name = file.to_str().unwrap();
    let mut races = 0;
    for _ in 0..TRIES {
        let output = run(&["--format", "json", "-o", name], "2");
        assert!(output.status.success(), "{}", text(&output.stderr));
        races = fs::read_to_string(&file).unwrap().lines().count() - 1;
        if races > 0 {
            break;
        }
    }
    println!("{races} races");
    assert!(races > 0);
    let source = program_source();
    let root = source.parent().unwrap().to_str().unwrap();
    let forms = [
        ("text", "WARNING: gwp-race: data race (pid="),
        ("tsan", "WARNING: ThreadSanitizer: data race (pid="),
        ("github", "::error file=many_races.c,line="),
        ("html", "<article id=\"race-"),
        ("sarif", "\"ruleId\":\"data-race\""),
        ("json", "\"type\":\"race\""),
    ];
    for (format, mark) in forms {
        let output = export(format, &["--source-root", root], &file);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let written = text(&output.stdout);
        assert_eq!(written.matches(mark).count(), races, "{format}: {written}");
    }
    let again = export("json", &[], &file);
    assert_eq!(text(&again.stdout), fs::read_to_string(&file).unwrap());

    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    let sarif = scratch.path().join("races.sarif");
    let output = export("sarif", &["-o", sarif.to_str().unwrap()], &file);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("the last record of") && said.contains("is not complete"),
        "{said}"
    );
    let document: Value = serde_json::from_slice(&fs::read(&sarif).unwrap()).unwrap();
    assert_eq!(results(&document).len(), races);

    let output = export("sarif", &[], &source);
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("many_races.c:1: this is no record"),
        "{said}"
    );
}

/// Check that CTest's memory checks count the races of a test that is run by gwp-race as those of ThreadSanitizer, and find none in one without.
#[test]
fn ctest_counts_races() {
    let scratch = tempfile::tempdir().unwrap();
    let lists = |command: &str| {
        format!(
            "cmake_minimum_required(VERSION 3.20)\nproject(app NONE)\n\
             set(MEMORYCHECK_TYPE ThreadSanitizer)\ninclude(CTest)\nadd_test(NAME races COMMAND {command})\n"
        )
    };
    let defects = |command: &str, name: &str| {
        let folder = scratch.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("CMakeLists.txt"), lists(command)).unwrap();
        let build = folder.join("build");
        let configured = Command::new("cmake")
            .arg("-S")
            .arg(&folder)
            .arg("-B")
            .arg(&build)
            .output();
        let configured = configured.unwrap();
        assert!(configured.status.success(), "{}", text(&configured.stderr));
        let checked = Command::new("ctest")
            .args(["-T", "memcheck"])
            .current_dir(&build)
            .output();
        let said = text(&checked.unwrap().stdout);
        println!("{said}");
        assert!(said.contains("100% tests passed"), "{said}");
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("data race - "));
        line.map_or(0, |number| number.trim().parse().unwrap())
    };
    let gwp_race = gwp_race();
    let (gwp_race, program) = (gwp_race.display(), program());
    let program = program.display();
    let options = AGGRESSIVE.join(" ");
    let watched = format!("{gwp_race} run --format tsan {options} -- {program} 2 2");
    let found = (0..TRIES).any(|number| defects(&watched, &format!("watched{number}")) > 0);
    assert!(found);
    assert_eq!(defects(&format!("{program} 1 2"), "alone"), 0);
}

//! Suppressions: made from reports, and told where they match nothing.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{Configuration, Program, binary::gwp_race, compile, watch::AGGRESSIVE};
use serde_json::Value;

/// Tries that races take at most.
const TRIES: usize = 5;

fn program() -> PathBuf {
    compile::program(&Program::new("conduct/many_races.c"), Configuration::USUAL).unwrap()
}

fn output(arguments: &[&str]) -> Output {
    let mut command = Command::new(gwp_race());
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program, and returns the records.
fn run(program: &Path, options: &[&str], file: &Path) -> Vec<Value> {
    let mut command = Command::new(gwp_race());
    command.args(["run", "--format", "json", "-o"]).arg(file);
    command.args(AGGRESSIVE).args(options).arg("--");
    command.arg(program).args(["3", "2"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    records(&fs::read_to_string(file).unwrap())
}

fn records(lines: &str) -> Vec<Value> {
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the races are called.
fn names(records: &[Value]) -> BTreeSet<String> {
    let races = records.iter().filter(|record| record["type"] == "race");
    let name = |race: &Value| race["identity"]["race"].as_str().unwrap().to_owned();
    races.map(name).collect()
}

/// Races of a program, of which there are several.
fn races(program: &Path, file: &Path) -> BTreeSet<String> {
    let found = (0..TRIES).find_map(|_| {
        let found = names(&run(program, &[], file));
        (found.len() > 1).then_some(found)
    });
    found.expect("no two races were caught")
}

/// Check that the rule which is made of a race suppresses that one alone, of a program with symbols and of one without, both when reports are read again and when the program is.
#[test]
fn rules_of_reports() {
    let scratch = tempfile::tempdir().unwrap();
    let stripped = scratch.path().join("stripped");
    let strip = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(program())
        .status();
    assert!(strip.unwrap().success());
    let file = scratch.path().join("races.json");
    let rules = scratch.path().join("my.supp");
    let [file_name, rules_name] = [&file, &rules].map(|path| path.to_str().unwrap());
    for program in [&program(), &stripped] {
        let found = races(program, &file);
        println!("{}: {found:?}", program.display());
        for race in &found {
            let made = output(&["suppress", file_name, race]);
            assert!(made.status.success(), "{}", text(&made.stderr));
            fs::write(&rules, &made.stdout).unwrap();
            let left = output(&[
                "export",
                "--format",
                "json",
                "--suppressions",
                rules_name,
                file_name,
            ]);
            let left = names(&records(&text(&left.stdout)));
            let expected: BTreeSet<_> = found
                .iter()
                .filter(|other| *other != race)
                .cloned()
                .collect();
            assert_eq!(left, expected, "{}", text(&made.stdout));
        }
        let all = output(&["suppress", file_name]);
        fs::write(&rules, &all.stdout).unwrap();
        let again = names(&run(program, &["--suppressions", rules_name], &file));
        assert!(again.is_disjoint(&found), "{again:?}");
    }
    let none = output(&["suppress", file_name, "r3:00000000000000000000000000000000"]);
    let said = text(&none.stderr);
    assert!(
        !none.status.success() && said.contains("has no race with the name"),
        "{said}"
    );
}

/// Check that a rule which matches nothing is told with file and line, in text and JSON, and neither one that matches nor one of a run that has hardly begun.
#[test]
fn unused_rules_are_told() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("races.json");
    let rules = scratch.path().join("my.supp");
    fs::write(
        &rules,
        "# two rules\nrace:many_races.c\nrace:nothing_has_this_name\nmutex:of_another_tool\n",
    )
    .unwrap();
    let name = rules.to_str().unwrap();
    let is_told = (0..TRIES).any(|_| {
        let records = run(&program(), &["--suppressions", name], &file);
        let summary = records.last().unwrap();
        let unused = summary["suppressions_unused"].as_array().unwrap();
        let used = summary["hits_swallowed"]["suppressed"].as_u64();
        println!("{} stalls, {used:?}: {unused:?}", summary["stalls"]);
        if used.is_none() || unused.is_empty() {
            return false;
        }
        assert_eq!(unused.len(), 1);
        assert_eq!(unused[0]["file"], name);
        assert_eq!(unused[0]["line"], 3);
        assert_eq!(unused[0]["rule"], "race:nothing_has_this_name");
        true
    });
    assert!(is_told);
    let is_told = (0..TRIES).any(|_| {
        let mut command = Command::new(gwp_race());
        command
            .arg("run")
            .args(AGGRESSIVE)
            .args(["--suppressions", name, "--"]);
        command.arg(program()).args(["3", "2"]).stdin(Stdio::null());
        let said = text(&command.output().unwrap().stderr);
        said.contains(&format!(
            "gwp-race: {name}:3: race:nothing_has_this_name matched nothing in this run\n"
        ))
    });
    assert!(is_told);
    let short = output(&["run", "--suppressions", name, "--", "true"]);
    assert!(
        !text(&short.stderr).contains("matched nothing"),
        "{short:?}"
    );
}

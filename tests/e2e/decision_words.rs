//! What is told of decisions: with names of functions, in words that are explained.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
};

use gwp_race_tests::{
    Configuration, Program,
    binary::{gwp_race, root},
    compile,
    watch::AGGRESSIVE,
};
use serde_json::Value;

/// Check that `-v` tells the function and the line of what was tried, and that each word that is counted is in the table of the documentation.
#[test]
fn decisions_are_told_in_words() {
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    let program = Program::new("conduct/many_races.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let mut command = Command::new(gwp_race());
    command.args(["run", "-v", "--format", "json", "-o"]);
    command.arg(&report).args(AGGRESSIVE).arg("--");
    command.arg(program).args(["3", "2"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let is_named = |line: &str| {
        let named = line.strip_prefix("gwp-race: increment_");
        named.is_some_and(|rest| {
            rest.contains("many_races.c:") && rest.contains(" (many_races") && rest.contains("), ")
        })
    };
    assert!(said.lines().any(is_named), "{said}");

    let report = fs::read_to_string(&report).unwrap();
    let summary: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    let counted = summary["decisions"].as_object().unwrap();
    let words: BTreeSet<&str> = counted.keys().flat_map(|name| name.split(": ")).collect();
    assert!(words.len() > 2, "{words:?}");
    let page = fs::read_to_string(root().join("docs/how-it-works.md")).unwrap();
    let (_, table) = page.split_once("### Decisions\n").unwrap();
    let table = table.split("\n#").next().unwrap();
    for word in words {
        assert!(table.contains(&format!("| `{word}` | ")), "{word}");
    }
}

/// Check that a run of an idle program says that it was idle, and tells what watching took beside its CPU time instead of a slowdown; that nothing is advised where nothing
/// carries metadata, which is told in other words, and in a run that is over at once.
#[test]
fn silence_says_what_to_change() {
    const TRIES: usize = 5;
    let said = |words: &[&str]| {
        let mut command = Command::new(gwp_race());
        let output = command.args(words).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let program = Program::new("conduct/idle.c");
    let program = compile::program(&program, Configuration::USUAL).unwrap();
    let idle = said(&["run", "--", program.to_str().unwrap(), "3", "2"]);
    let mut lines = idle.lines().rev();
    let [advice, closing] = [(); 2].map(|()| lines.next().unwrap_or_default());
    assert!(
        advice.starts_with("gwp-race: the program has used ")
            && advice.contains("put it under load"),
        "{idle}"
    );
    assert!(
        closing.contains("watching took ") && !closing.contains("slowdown"),
        "{idle}"
    );
    let bare = said(&["run", "--", "sleep", "2"]);
    assert!(
        bare.contains("carries metadata, so no race can be found") && !bare.contains("under load"),
        "{bare}"
    );
    // On a machine with much else to do it may be over only after a while.
    let mut shorts = (1..=TRIES).map(|_| said(&["run", "--", program.to_str().unwrap(), "0"]));
    let tries = shorts.position(|short| !short.contains("under load"));
    println!("over at once in try {:?}", tries.map(|before| before + 1));
    assert!(tries.is_some());
}

//! Reports to a descriptor that the shell has opened for them.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use gwp_race_tests::{Configuration, Program, binary::gwp_race, compile};
use serde_json::Value;

/// Runs a script in which `$0` is gwp-race and `$1` a program with races.
fn shell(script: &str, folder: &Path) -> Output {
    let program = compile::program(&Program::new("conduct/many_races.c"), Configuration::USUAL);
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script])
        .arg(gwp_race())
        .arg(program.unwrap());
    shell.current_dir(folder).stdin(Stdio::null());
    shell.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Check that JSON on a descriptor of its own is nothing but JSON, whatever gwp-race and the program say, and that a file under that number is appended to.
#[test]
fn json_is_alone_there() {
    let scratch = tempfile::tempdir().unwrap();
    let script = "\"$0\" run -v --format json --output-fd 3 --max-overhead 100% -- sh -c '\"$0\" 1 2; echo out; echo err >&2' \"$1\" 3>&1 >/dev/null 2>/dev/null";
    let output = shell(script, scratch.path());
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout);
    let records: Vec<Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = records.last().unwrap();
    assert_eq!(last["type"], "summary", "{lines}");

    let script = "echo mine > report; \"$0\" run --output-fd 7 -- true 7>> report";
    let output = shell(script, scratch.path());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("data race"), "{said}");
    let kept = fs::read_to_string(scratch.path().join("report")).unwrap();
    assert!(
        kept.starts_with("mine\n") && kept.contains("gwp-race: no data race"),
        "{kept}"
    );
}

/// Check that the program does not get the descriptor, and that another one is still its own.
#[test]
fn the_program_does_not_get_it() {
    let scratch = tempfile::tempdir().unwrap();
    let script = "\"$0\" run -q --output-fd 5 -- sh -c 'for fd in 4 5; do test -e /proc/self/fd/$fd && echo $fd; done; true' 4> a 5> b";
    let output = shell(script, scratch.path());
    assert_eq!(text(&output.stdout), "4\n", "{output:?}");
}

/// Check that a descriptor that cannot be written to is refused before the program starts, and that it is told when nobody reads there any more.
#[test]
fn what_cannot_be_written_to() {
    let scratch = tempfile::tempdir().unwrap();
    let run = "\"$0\" run --output-fd 9 -- touch started";
    for redirection in ["9>&-", "9< /dev/null"] {
        let output = shell(&format!("{run} {redirection}"), scratch.path());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains("cannot be written to descriptor 9: "),
            "{said}"
        );
        assert!(!scratch.path().join("started").exists());
    }
    let output = shell("\"$0\" run --output-fd 1 -o report -- true", scratch.path());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let script = "{ sleep 1; \"$0\" run --output-fd 3 -- true 3>&1 > /dev/null; echo \"code $?\" >&2; } | true";
    let said = text(&shell(script, scratch.path()).stderr);
    assert!(
        said.contains("cannot write the report to descriptor 3: Broken pipe"),
        "{said}"
    );
    assert!(
        said.contains("gwp-race: no data race") && said.contains("code 125"),
        "{said}"
    );
}

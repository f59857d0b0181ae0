//! Limits of resources (getrlimit(2)): too low ones are told as what they are, and the program has its own.

use std::process::{Command, Output};

use gwp_race_tests::binary::gwp_race;

/// `gwp-race run` of a shell script below `prlimit`, by a root who may not raise limits.
fn limited(limits: &[&str], options: &[&str], script: &str) -> Output {
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-sys_resource", "prlimit"])
        .args(limits)
        .arg(gwp_race())
        .arg("run")
        .args(options)
        .args(["--", "/bin/sh", "-c", script]);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Check that too few files are told with the limit and the command that raises it, whichever step they are too
/// few for, and that the program is not started then.
#[test]
fn too_few_files_are_told_as_such() {
    for files in [8, 12, 16, 20, 24, 28] {
        let output = limited(&[&format!("--nofile={files}:{files}")], &[], "echo started");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(125), "{files}: {said}");
        assert!(
            said.contains(&format!("limited to {files} ")) && said.contains("ulimit -n"),
            "{files}: {said}"
        );
        assert!(!said.contains("panicked"), "{files}: {said}");
        assert_eq!(said.lines().count(), 1, "{files}: {said}");
        assert_eq!(output.stdout, b"", "{files}: {said}");
    }
}

/// Check that a low limit is raised where that is allowed, and that the program has the one that it would have had.
#[test]
fn the_program_has_its_own_limits() {
    let script = "ulimit -Sn; ulimit -Hn";
    let output = limited(&["--nofile=20:5000"], &[], script);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "20\n5000\n");
}

/// Check that `-o -` is standard output, where the report stands beside what the program writes there: neither is
/// lost in a file, and the closing line is a line of its own.
#[test]
fn reports_go_to_standard_output() {
    let scratch = tempfile::tempdir().unwrap();
    let both = scratch.path().join("both");
    let status = Command::new("/bin/sh")
        .args(["-c", "\"$0\" run -o - -- printf begin > \"$1\""])
        .arg(gwp_race())
        .arg(&both)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let text = std::fs::read_to_string(both).unwrap();
    assert!(
        text.starts_with("begin\ngwp-race: no data race was caught"),
        "{text}"
    );
    assert!(!scratch.path().join("-").exists());
}

//! Where standard error is a terminal, as it usually is.

use std::process::{Command, Stdio};

use gwp_race_tests::binary::gwp_race;

/// Check that gwp-race works on a terminal as elsewhere, and says nothing there but what is its own, without colours.
#[test]
fn a_terminal_is_like_a_file() {
    let watch = format!(
        "{} run -v -- sh -c 'test -t 2 && echo terminal'",
        gwp_race().display()
    );
    // script(1) gives it a terminal, and prints what comes there.
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &watch, "/dev/null"]);
    let output = script.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let mut lines: Vec<_> = said.lines().map(str::trim_end).collect();
    let program = lines.iter().position(|line| *line == "terminal");
    lines.remove(program.unwrap_or_else(|| panic!("the program had none: {said}")));
    assert!(!lines.is_empty(), "gwp-race said nothing");
    let is_own = |line: &&str| line.is_empty() || line.starts_with("gwp-race: ");
    assert!(lines.iter().all(is_own), "{said:?}");
}

/// Check that wrong options, a warning and a failure begin alike.
#[test]
fn messages_begin_with_the_name() {
    let said = |words: &[&str]| {
        let mut command = Command::new(gwp_race());
        let output = command.args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    for (words, code, beginning) in [
        (&["run", "--no-such-option"][..], 2, "gwp-race: error: "),
        (&["attach", "0"], 2, "gwp-race: error: "),
        (&["inspect", "/nonexistent"], 1, "gwp-race: error: "),
        (&["run", "--", "/nonexistent"], 127, "gwp-race: error: "),
        (
            &["run", "--follow-forks", "no", "--", "sleep", "3"],
            0,
            "gwp-race: warning: nothing in process",
        ),
        (
            &["run", "--require-metadata", "--", "true"],
            67,
            "gwp-race: error: nothing that was executed carries metadata",
        ),
    ] {
        let (found, text) = said(words);
        assert_eq!(found, Some(code), "{words:?}: {text}");
        assert!(
            text.lines().any(|line| line.starts_with(beginning)),
            "{words:?}: {text}"
        );
        assert!(
            !text.contains("WARN ") && !text.contains("ERROR "),
            "{text}"
        );
    }
}

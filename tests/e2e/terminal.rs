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
    let is_own = |line: &&str| {
        let mut beginnings = ["INFO ", "WARN ", "gwp-race: "].into_iter();
        line.is_empty() || beginnings.any(|beginning| line.trim_start().starts_with(beginning))
    };
    assert!(lines.iter().all(is_own), "{said:?}");
}

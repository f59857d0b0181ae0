//! What the tests that failed said, once more and in short at the end of all output, where it is looked for and where a log
//! that was cut still has it; and which binaries of tests have ended before all of their tests had. Read off what the standard harness prints.

use crate::durations::ended;

/// How many lines of each message are repeated, and how many characters of each line: few, as whoever cuts a log keeps
/// some twenty lines of its end.
const LINES: usize = 8;
const COLUMNS: usize = 400;
/// What stands above where a panic came from; above where an error came from it begins with a capital letter.
const BACKTRACE: &str = "stack backtrace:";

/// Listens to the output of `cargo test`.
#[derive(Debug, Default)]
pub struct Failures {
    failed: Vec<Failure>,
    /// Binaries that have not told yet how their tests went: the last one runs, those before have started it as one of their tests, or have ended early.
    running: Vec<Binary>,
    /// Within what a test has printed, and there within what it panicked with.
    is_output: bool,
    is_message: bool,
}

/// A binary of tests.
#[derive(Debug)]
struct Binary {
    tests: usize,
    ended: usize,
    /// The last one that has ended, where one has.
    last: String,
}

#[derive(Debug)]
struct Failure {
    test: String,
    message: Vec<String>,
}

impl Failures {
    /// Takes note of a line.
    pub fn hear(&mut self, line: &str) {
        if let Some(tests) = announced(line) {
            self.running.push(Binary {
                tests,
                ended: 0,
                last: String::new(),
            });
        } else if let (Some(binary), Some(test)) = (self.running.last_mut(), ended(line)) {
            binary.ended += 1;
            test.clone_into(&mut binary.last);
        }
        if let Some(test) = section(line) {
            self.failed.push(Failure {
                test: test.to_owned(),
                message: Vec::new(),
            });
            (self.is_output, self.is_message) = (true, false);
        } else if line.starts_with("test result: ") {
            (self.is_output, self.is_message) = (false, false);
            self.running.pop();
        } else if self.is_output {
            self.hear_output(line);
        }
    }

    fn hear_output(&mut self, line: &str) {
        if line.starts_with("thread '") && line.contains("panicked at") {
            self.is_message = true;
        } else if line == "failures:"
            || line.to_lowercase() == BACKTRACE
            || line.starts_with("note: ")
        {
            self.is_message = false;
        }
        if let Some(failure) = self.failed.last_mut()
            && self.is_message
            && !line.trim().is_empty()
            && failure.message.len() < LINES
        {
            failure.message.push(line.chars().take(COLUMNS).collect());
        }
    }

    /// What is printed of them; nothing where none failed.
    pub fn text(&self) -> String {
        use std::fmt::Write as _;

        let mut text = String::new();
        for binary in &self.running {
            let Binary { tests, ended, last } = binary;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "==> a binary of tests ended early, after {ended} of {tests}; the last: {last}"
            );
        }
        if self.failed.is_empty() {
            return text;
        }
        let _ = writeln!(text, "==> tests that failed: {}", self.failed.len());
        for failure in &self.failed {
            let _ = writeln!(text, "    {}", failure.test);
            for line in &failure.message {
                let _ = writeln!(text, "        {line}");
            }
        }
        text
    }
}

/// The test whose output follows such a line.
fn section(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// How many tests a binary is about to run.
fn announced(line: &str) -> Option<usize> {
    let (tests, noun) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(noun, "test" | "tests").then(|| tests.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that binaries are told which ended before they had said how their tests went, also the last one, and no others: tests start binaries of tests, too.
    #[test]
    fn binaries_that_end_early() {
        let mut failures = Failures::default();
        for line in [
            "running 2 tests",
            "test a ... ok",
            "running 1 test",
            "test b ... FAILED",
            "test result: FAILED. 0 passed; 1 failed",
            "running 2 tests",
            "test outer ... ok",
            "running 1 test",
            "test inner ... ok",
            "test result: ok. 1 passed",
            "test starts_inner ... ok",
            "test result: ok. 2 passed",
            "running 3 tests",
            "test c::d ... ok",
            "test c::e ... ok",
        ] {
            failures.hear(line);
        }
        assert_eq!(
            failures.text(),
            "==> a binary of tests ended early, after 1 of 2; the last: a\n\
             ==> a binary of tests ended early, after 2 of 3; the last: c::e\n"
        );
    }

    /// Check that what a test panicked with is told, and neither what it printed before nor where it was called from.
    #[test]
    fn messages_of_failed_tests() {
        let mut failures = Failures::default();
        for line in [
            "test a ... FAILED",
            "",
            "failures:",
            "",
            "---- a stdout ----",
            "the broken one: caught on try 1",
            "",
            "thread 'a' (77) panicked at tests/e2e/a.rs:8:9:",
            "it has no race, yet: [",
            "",
            "]",
            "stack backtrace:",
            "   0: __rustc::rust_begin_unwind",
            "",
            "---- b::c stdout ----",
            "thread 'b::c' (78) panicked at tests/e2e/b.rs:1:1:",
            "not caught",
            "Stack backtrace:",
            "   0: anyhow::error",
            "note: run with `RUST_BACKTRACE=1`",
            "",
            "failures:",
            "    a",
            "    b::c",
            "",
            "test result: FAILED. 0 passed; 2 failed",
            "thread 'other' panicked at elsewhere",
        ] {
            failures.hear(line);
        }
        assert_eq!(
            failures.text(),
            "==> tests that failed: 2\n    a\n        thread 'a' (77) panicked at tests/e2e/a.rs:8:9:\n        \
             it has no race, yet: [\n        ]\n    b::c\n        thread 'b::c' (78) panicked at \
             tests/e2e/b.rs:1:1:\n        not caught\n"
        );
    }

    /// Check that nothing is said where nothing failed, and that long messages are cut.
    #[test]
    fn short() {
        let mut failures = Failures::default();
        failures.hear("test result: ok. 1 passed");
        assert_eq!(failures.text(), "");
        failures.hear("---- a stdout ----");
        failures.hear("thread 'a' (77) panicked at a.rs:8:9:");
        for _ in 0..100 {
            failures.hear(&"é".repeat(1000));
        }
        assert_eq!(failures.text().lines().count(), 2 + LINES);
        assert!(
            failures
                .text()
                .lines()
                .all(|line| line.chars().count() <= COLUMNS + 8)
        );
    }
}

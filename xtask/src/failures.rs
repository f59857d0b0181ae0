//! What the tests that failed said, once more and in short at the end of all output, where it is looked for and where a log
//! that was cut still has it. Read off what the standard harness prints behind a binary's tests.

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
    /// Within what a test has printed, and there within what it panicked with.
    is_output: bool,
    is_message: bool,
}

#[derive(Debug)]
struct Failure {
    test: String,
    message: Vec<String>,
}

impl Failures {
    /// Takes note of a line.
    pub fn hear(&mut self, line: &str) {
        if let Some(test) = section(line) {
            self.failed.push(Failure {
                test: test.to_owned(),
                message: Vec::new(),
            });
            (self.is_output, self.is_message) = (true, false);
        } else if line.starts_with("test result: ") {
            (self.is_output, self.is_message) = (false, false);
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

        if self.failed.is_empty() {
            return String::new();
        }
        let mut text = format!("==> tests that failed: {}\n", self.failed.len());
        for failure in &self.failed {
            // Writing to a string does not fail.
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

#[cfg(test)]
mod tests {
    use super::*;

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

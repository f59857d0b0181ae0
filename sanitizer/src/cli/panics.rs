//! What is said where gwp-race itself is wrong: that a process of its own has panicked.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use super::messages::{ERROR, mark};
use crate::report::clean::clean_message;
use crate::report::status_line::last_words;

/// From now on a panic of this process, which is called so, is told as other errors are.
pub(super) fn tell_as(process: &'static str) {
    panic::set_hook(Box::new(move |info| last_words(&text(process, info))));
}

fn text(process: &str, info: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = info
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let cause = info.payload_as_str().unwrap_or("nobody can tell why");
    let cause = cause.trim_end();
    let text = format!(
        "{process} has panicked (thread {thread}{place}): {cause}; this is a fault of gwp-race's: please report it, with what -v says"
    );
    let mut text = format!("{}{ERROR}{}\n", mark(ERROR), clean_message(&text));
    // `RUST_BACKTRACE` asks for it.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("{backtrace}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Names the process that is to panic.
    const ASKED: &str = "GWP_RACE_TEST_PANICS";

    /// Check that a panic is told in a line with the usual beginning, with what has failed, where, and what to do; what it panics with moves no cursor.
    #[test]
    fn panics_are_told_as_errors() {
        if std::env::var_os(ASKED).is_some() {
            tell_as("the tracer");
            panic!("no\x1b[31m number\n");
        }
        let name = std::thread::current().name().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([&name, "--exact", "--nocapture"]);
        command.env(ASKED, "yes").env_remove("RUST_BACKTRACE");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("panicked"));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        assert!(
            line.starts_with("gwp-race: error: the tracer has panicked (thread "),
            "{line}"
        );
        assert!(
            line.contains("panics.rs:") && line.contains(r"no\u{1b}[31m number"),
            "{line}"
        );
        assert!(line.ends_with("with what -v says"), "{line}");
    }
}

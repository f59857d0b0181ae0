//! What is said where gwp-race itself is wrong: that a process of its own has panicked.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::process;

use super::messages::{ERROR, mark};
use crate::report::clean::clean_message;
use crate::report::status_line::last_words;

/// How the standard library tells an error that is `ENOMEM`.
const OUT_OF_MEMORY: &str = "(os error 12)";

/// From now on a panic of this process, which is called so, is told as other errors are.
pub(super) fn tell_as(process: &'static str) {
    panic::set_hook(Box::new(move |info| {
        let cause = info.payload_as_str().unwrap_or("nobody can tell why");
        let cause = cause.trim_end();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("without a name");
        if !cause.contains(OUT_OF_MEMORY) {
            return last_words(&text(process, thread, cause, info));
        }
        // The standard library panics where it has no memory for a thread that it has begun. That is no fault of gwp-race's, and ends the process as any allocation
        // that fails does: with one thread less it would go on without doing what it says that it does.
        last_words(&line(&format!(
            "{process}: memory allocation failed (thread {thread}): {cause}; allow it more memory (ulimit -v, or memory.max of its control group)"
        )));
        process::abort();
    }));
}

/// An error's line.
fn line(text: &str) -> String {
    format!("{}{ERROR}{}\n", mark(ERROR), clean_message(text))
}

fn text(process: &str, thread: &str, cause: &str, info: &PanicHookInfo<'_>) -> String {
    let place = info
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let mut text = line(&format!(
        "{process} has panicked (thread {thread}{place}): {cause}; this is a fault of gwp-race's: please report it, with what -v says"
    ));
    // `RUST_BACKTRACE` asks for it.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("{backtrace}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output, Stdio};
    use std::thread;

    use nix::sys::resource::{Resource, setrlimit};

    use super::*;

    /// Names the process that is to panic.
    const ASKED: &str = "GWP_RACE_TEST_PANICS";

    /// Runs the test that calls this once more, by itself and in a process of its own, which is to panic.
    fn panicking() -> Output {
        let name = thread::current().name().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([&name, "--exact", "--nocapture"]);
        command.env(ASKED, "yes").env_remove("RUST_BACKTRACE");
        // One heap for all threads, so that what is free there is so for each.
        command.env("MALLOC_ARENA_MAX", "1");
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// What the process maps now, in bytes.
    fn mapped() -> u64 {
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
        pages * 4096
    }

    /// Check that a panic is told in a line with the usual beginning, with what has failed, where, and what to do; what it panics with moves no cursor.
    #[test]
    fn panics_are_told_as_errors() {
        if std::env::var_os(ASKED).is_some() {
            tell_as("the tracer");
            panic!("no\x1b[31m number\n");
        }
        let output = panicking();
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
    /// Check that a thread that gets a stack but not what it needs besides is told as the lack of memory that it is, and ends the process as such.
    #[test]
    fn a_lack_of_memory_is_no_panic() {
        /// What glibc and musl give a thread that asks for this much, with what they add at most.
        const STACK: u64 = 1 << 20;
        const STEPS: u64 = 256;
        if std::env::var_os(ASKED).is_some() {
            tell_as("the tracer");
            // What comes out of the heap is to be had all the same: it lies before what is still in use.
            let free = vec![1_u8; 100_000];
            let used = Box::new([1_u8; 64]);
            drop(free);
            let before = mapped();
            for step in 0..STEPS {
                let most = before + STACK + step * 4096;
                setrlimit(Resource::RLIMIT_AS, most, libc::RLIM_INFINITY).unwrap();
                let builder = thread::Builder::new().stack_size(STACK as usize);
                // Too little for the stack, or enough for everything.
                if let Ok(thread) = builder.spawn(|| ()) {
                    let _ = thread.join();
                }
            }
            drop(used);
            return;
        }
        let output = panicking();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(
            said.contains("gwp-race: error: the tracer: memory allocation failed (thread "),
            "{said}"
        );
        assert!(!said.contains("panicked"), "{said}");
    }
}

//! How many files may be open, and so how many threads can be watched.

use nix::sys::resource::{Resource, getrlimit};

use crate::cli::doctor::{Check, plural};
use crate::kernel::open_files;

/// Open files that are enough for programs of some hundred threads.
const ENOUGH_FILES: u64 = 4096;

pub(super) fn open_files() -> Check {
    let name = "open files";
    let mend = "ulimit -n 65536 (as root), or LimitNOFILE=65536 in the systemd unit";
    match most_files() {
        Ok(most) if most >= ENOUGH_FILES => Check::ok(name, format!("up to {most}")),
        Ok(most) if most < OTHER_FILES => Check::fail(
            name,
            format!("up to {most}: gwp-race itself needs {OTHER_FILES}"),
            mend,
        ),
        Ok(most) => Check::warn(
            name,
            format!(
                "up to {most}: enough for {} (3 events each)",
                plural(threads_for(most), "thread")
            ),
            mend,
        ),
        Err(error) => Check::warn(name, format!("getrlimit fails: {error}"), mend),
    }
}

/// What a watching gwp-race has open beside the events of threads: maps, programs, pipes, symbol files.
const OTHER_FILES: u64 = 64;

/// The limit of open files that a watching gwp-race would have: it raises its own as far as it goes.
pub(in crate::cli::doctor) fn most_files() -> nix::Result<u64> {
    open_files::raise_files();
    getrlimit(Resource::RLIMIT_NOFILE).map(|(present, _)| present)
}

/// How many threads can be watched with a limit of open files.
pub(in crate::cli::doctor) fn threads_for(files: u64) -> usize {
    /// Events a thread needs: clock, breakpoint, watchpoint.
    const EVENTS: u64 = 3;
    usize::try_from(files.saturating_sub(OTHER_FILES) / EVENTS).unwrap_or(usize::MAX)
}

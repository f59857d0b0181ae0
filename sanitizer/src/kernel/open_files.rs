//! The limit of open files: it is raised beforehand, and it is told beforehand where it is too low.

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit, setrlimit},
};

use super::KernelError;

/// What root's limit of open files is raised to: a watched thread needs up to three.
const FILES_OF_ROOT: u64 = 1 << 20;
/// What a tracer opens with its first threads (20 were counted), and what it opens for a moment while gates and
/// modules are loaded.
pub const FILES_OF_TRACER: u64 = 32;
/// What the daemon opens with one tracer (15 were counted), and for a moment while it reads symbols.
pub const FILES_OF_DAEMON: u64 = 20;

/// Limits of open files: the one in force, and the one up to which it may be raised without rights.
pub type FileLimits = (u64, u64);

/// Raises the limit of open files as far as it goes; what it was before. `None` where it cannot be asked for.
pub fn raise_files() -> Option<FileLimits> {
    let before = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let (_, most) = before;
    // Root may be without the right to raise it (containers), and others may have it.
    let raised = most < FILES_OF_ROOT && set_files((FILES_OF_ROOT, FILES_OF_ROOT));
    if !raised {
        set_files((most, most));
    }
    Some(before)
}

/// Sets the limit of open files; whether that was allowed.
pub fn set_files((present, most): FileLimits) -> bool {
    setrlimit(Resource::RLIMIT_NOFILE, present, most).is_ok()
}

/// That so many files can be opened beside those that are open.
///
/// # Errors
/// The limit is too low: some calls would say so later, others something else.
pub fn need_files(needed: u64) -> Result<(), KernelError> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((present, _)) if present < open.saturating_add(needed) => Err(KernelError {
            call: "opening files",
            object: format!("gwp-race, which needs {needed} beside the {open} that it has"),
            source: Errno::EMFILE.into(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a lack of files is told beforehand, as what it is.
    #[test]
    fn too_few_files() {
        assert!(need_files(1).is_ok());
        let error = need_files(u64::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("Too many open files"), "{error}");
        assert!(error.contains("ulimit -n"), "{error}");
    }
}

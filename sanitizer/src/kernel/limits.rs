//! The limits of this process (getrlimit(2)): the one that a failed call has met is named, with its
//! present value and the command that raises it.

use std::io;

use nix::{
    errno::Errno,
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
};

/// A limit as users know it.
struct Limit {
    resource: Resource,
    /// What is limited, in the words of a sentence that goes on with "to N".
    what: &'static str,
    /// What the number counts.
    unit: &'static str,
    /// The shell command that raises it.
    mend: &'static str,
}

const FILES: Limit = Limit {
    resource: Resource::RLIMIT_NOFILE,
    what: "open files are limited",
    unit: "",
    mend: "`ulimit -n 65536`, in a systemd unit LimitNOFILE=65536",
};
const PROCESSES: Limit = Limit {
    resource: Resource::RLIMIT_NPROC,
    what: "processes and threads of this user are limited",
    unit: "",
    mend: "`ulimit -u unlimited`, in a systemd unit LimitNPROC=infinity",
};
const ADDRESS_SPACE: Limit = Limit {
    resource: Resource::RLIMIT_AS,
    what: "the address space is limited",
    unit: " bytes",
    mend: "`ulimit -v unlimited`, in a systemd unit LimitAS=infinity",
};
const DATA: Limit = Limit {
    resource: Resource::RLIMIT_DATA,
    what: "data is limited",
    unit: " bytes",
    mend: "`ulimit -d unlimited`, in a systemd unit LimitDATA=infinity",
};
const LOCKED: Limit = Limit {
    resource: Resource::RLIMIT_MEMLOCK,
    what: "locked memory is limited",
    unit: " bytes",
    mend: "`ulimit -l unlimited`, in a systemd unit LimitMEMLOCK=infinity",
};
const FILE_SIZE: Limit = Limit {
    resource: Resource::RLIMIT_FSIZE,
    what: "files are limited",
    unit: " bytes",
    mend: "`ulimit -f unlimited`, in a systemd unit LimitFSIZE=infinity",
};

impl Limit {
    /// What to say of it, unless it is none.
    fn told(&self) -> Option<String> {
        let (present, _) = getrlimit(self.resource).ok()?;
        let Self {
            what, unit, mend, ..
        } = self;
        (present != RLIM_INFINITY)
            .then(|| format!("{what} to {present}{unit} (to raise that as root: {mend})"))
    }
}

/// Which limits a call may have met that failed with this error, and how to raise them. `None` for errors
/// that do not come of limits.
#[must_use]
pub fn met(errno: i32) -> Option<String> {
    let (limits, beyond): (&[Limit], &str) = match Errno::from_raw(errno) {
        Errno::EMFILE => (&[FILES], "raise the limit of open files (ulimit -n)"),
        Errno::ENFILE => (
            &[],
            "too many files are open on this machine: sysctl fs.file-max",
        ),
        // A thread needs a stack, too.
        Errno::EAGAIN => (
            &[PROCESSES, ADDRESS_SPACE, DATA],
            "or its control group has too many (pids.max), or the machine",
        ),
        Errno::ENOMEM => (
            &[ADDRESS_SPACE, DATA, LOCKED],
            "or memory has run out: free some",
        ),
        Errno::EFBIG => (&[FILE_SIZE], "raise the limit of file sizes (ulimit -f)"),
        _ => return None,
    };
    let told: Vec<String> = limits.iter().filter_map(Limit::told).collect();
    Some(match (told.is_empty(), beyond.strip_prefix("or ")) {
        (true, None) => beyond.to_owned(),
        (true, Some(beyond)) => beyond.to_owned(),
        (false, None) => told.join("; "),
        (false, Some(_)) => format!("{}; {beyond}", told.join("; ")),
    })
}

/// Whether an error says that descriptors or memory have run out: what has failed so is to be tried again.
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    errno.is_some_and(|errno| [libc::EMFILE, libc::ENFILE, libc::ENOMEM].contains(&errno))
}

/// An error of the operating system with the limits that it may have met.
#[must_use]
pub fn explained(error: &io::Error) -> String {
    match error.raw_os_error().and_then(met) {
        Some(limits) => format!("{error}; {limits}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each error of a limit names what is limited, to how much, and the command, and that others
    /// are not explained by limits.
    #[test]
    fn errors_name_their_limits() {
        let (files, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let told = met(libc::EMFILE).unwrap();
        assert!(
            told.contains(&format!("limited to {files} ")) && told.contains("ulimit -n 65536"),
            "{told}"
        );
        for (errno, words) in [
            (libc::EAGAIN, "pids.max"),
            (libc::ENOMEM, "memory has run out"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EFBIG, "ulimit -f"),
        ] {
            let told = met(errno).unwrap();
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(met(libc::EINVAL), None);
        let is_shortage = |errno| is_shortage(&io::Error::from_raw_os_error(errno));
        assert!([libc::EMFILE, libc::ENFILE, libc::ENOMEM].map(is_shortage) == [true; 3]);
        assert!(!is_shortage(libc::EACCES));
        assert_eq!(
            explained(&io::Error::from_raw_os_error(libc::ENOENT)),
            "No such file or directory (os error 2)"
        );
    }
}

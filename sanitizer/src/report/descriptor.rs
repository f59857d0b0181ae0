//! Reports to a descriptor that gwp-race was started with: its standard output, or one that the shell has opened for it.

use std::fs::File;
use std::os::fd::RawFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::record_file::RecordFile;
use crate::kernel::descriptors::{close_for_others, closed_at_start, duplicate, is_inherited};

/// A descriptor that cannot be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "reports cannot be written to descriptor {number}: {}; open it for writing, as in --output-fd 3 3> FILE", self.why()
)]
pub struct DescriptorError {
    /// Its number.
    pub number: RawFd,
    /// What is wrong.
    pub error: Errno,
}

impl DescriptorError {
    fn why(&self) -> &'static str {
        match self.error {
            Errno::EBADF => "nothing is open there for writing",
            other => other.desc(),
        }
    }
}

/// What is open under this number, for reports alone: programs that are started later do not inherit it, but for the standard descriptors, which are theirs as well.
///
/// # Errors
/// Nothing is open there, or only for reading, or something of gwp-race's own.
pub fn open_descriptor(number: RawFd) -> Result<RecordFile, DescriptorError> {
    let fail = |error| DescriptorError { number, error };
    let file = same_descriptor(number).map_err(fail)?;
    if number > 2 {
        close_for_others(number).map_err(fail)?;
    }
    Ok(RecordFile::new(file, false))
}

/// Whether the path names one of our own descriptors, where the program that we start writes as well.
#[must_use]
pub fn is_own_descriptor(path: &Path) -> bool {
    own_descriptor(path).is_some()
}

/// The number of the own descriptor that the path names: `-` is standard output, and shells have names of the
/// kernel for `>(command)`, which nobody else can lay links to.
pub(super) fn own_descriptor(path: &Path) -> Option<RawFd> {
    let path = path.to_str()?;
    if path == "-" {
        return Some(1);
    }
    let number = |name: &str| {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| name.parse().ok())?
    };
    if let Some(name) = path.strip_prefix("/proc/self/fd/") {
        return number(name);
    }
    match path.strip_prefix("/dev/")? {
        "stdout" => Some(1),
        "stderr" => Some(2),
        name => number(name.strip_prefix("fd/")?),
    }
}

/// Another descriptor of the same open file. To open it by its name anew would begin at another place of it, so
/// that the program that writes there as well would write over the reports.
pub(super) fn same_descriptor(number: RawFd) -> Result<File, Errno> {
    let is_closed = number
        .try_into()
        .is_ok_and(|bit: u32| closed_at_start().checked_shr(bit).unwrap_or(0) & 1 == 1);
    if is_closed {
        return Err(Errno::EBADF);
    }
    if !is_inherited(number)? {
        // One that this process has opened for itself.
        return Err(Errno::EBADF);
    }
    let copy = duplicate(number)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EBADF)))?;
    let mode = OFlag::from_bits_truncate(fcntl(&copy, FcntlArg::F_GETFL)?);
    match mode & OFlag::O_ACCMODE {
        OFlag::O_RDONLY => Err(Errno::EBADF),
        _ => Ok(File::from(copy)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _, pipe};
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::path::PathBuf;

    use super::*;
    use crate::report::{OpenError, open_output};

    /// A copy as a shell would have left it.
    fn inherited(fd: RawFd) -> OwnedFd {
        let fd = duplicate(fd).expect("duplicate");
        fcntl(&fd, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).expect("fcntl");
        fd
    }

    /// Check that a descriptor which the user names is written to and kept from other programs, and that one which is closed, for reading only or our own is refused with the number.
    #[test]
    fn descriptors_by_number() {
        let (mut reader, writer) = pipe().expect("pipe");
        let theirs = inherited(writer.as_raw_fd());
        let number = theirs.as_raw_fd();
        let own = open_descriptor(writer.as_raw_fd()).expect_err("our own");
        assert!(
            own.to_string()
                .contains(&format!("descriptor {}: ", writer.as_raw_fd()))
        );
        drop(writer);
        let mut file = open_descriptor(number).expect("open");
        assert_eq!(is_inherited(number), Ok(false));
        file.write_all(b"a race\n").expect("write");
        drop((file, theirs));
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "a race\n");
        let for_reading = inherited(reader.as_raw_fd());
        for wrong in [for_reading.as_raw_fd(), 1 << 20] {
            let error = open_descriptor(wrong).expect_err("not for writing");
            assert_eq!((error.number, error.error), (wrong, Errno::EBADF));
        }
    }

    /// Check that what a shell calls `/dev/fd/N` is written to, and nothing that looks like it.
    #[test]
    fn own_descriptors() {
        let (mut reader, writer) = pipe().expect("pipe");
        let own = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        let error = open_output(&own).expect_err("one that was not inherited");
        assert!(matches!(error, OpenError::Open { .. }), "{error}");
        let copy = inherited(writer.as_raw_fd());
        drop(writer);
        let writer = copy;
        let path = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        let mut file = open_output(&path).expect("open");
        file.write_all(b"a race\n").expect("write");
        drop((file, writer));
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "a race\n");
        assert_eq!(own_descriptor(Path::new("-")), Some(1));
        let (reader, _writer) = pipe().expect("pipe");
        let reader = inherited(reader.as_raw_fd());
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let error = open_output(&path).expect_err("for reading only");
        assert!(matches!(error, OpenError::Open { .. }), "{error}");
        for path in [
            "/dev/fd/",
            "/dev/fd/0/../x",
            "/dev/fd/1x",
            "/dev/stdout/",
            "dev/stdout",
        ] {
            assert_eq!(own_descriptor(Path::new(path)), None, "{path}");
        }
    }
}

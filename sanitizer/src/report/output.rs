//! The file that reports go to, opened so that a privileged process cannot be tricked into
//! overwriting something else.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why a report file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Opening failed.
    #[error("cannot open {path} for the report: {source}; name a file that you may write with -o")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The name is a symbolic link.
    #[error(
        "{path} is a symbolic link, which a report is not written through; \
             name the file itself with -o"
    )]
    SymbolicLink {
        /// The file.
        path: PathBuf,
    },
    /// The file has further names, and one of them may be somebody else's.
    #[error(
        "{path} has other hard links, so writing would change another file as well; \
             remove it or name another file with -o"
    )]
    HardLink {
        /// The file.
        path: PathBuf,
    },
    /// Not something to write a report to.
    #[error(
        "{path} is neither a regular file, a pipe nor a character device; \
             name another file with -o"
    )]
    Kind {
        /// The file.
        path: PathBuf,
    },
}

/// Creates or truncates the file that `-o` names: mode 0600 less the umask, never through a
/// symbolic link or onto a file with several names.
pub fn open_output(path: &Path) -> Result<File, OpenError> {
    let fail = |source: io::Error| match source.raw_os_error() {
        Some(libc::ELOOP) => OpenError::SymbolicLink {
            path: path.to_owned(),
        },
        _ => OpenError::Open {
            path: path.to_owned(),
            source,
        },
    };
    // Truncated only after it is known what it is.
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(fail)?;
    let meta = file.metadata().map_err(fail)?;
    let kind = meta.file_type();
    if kind.is_file() {
        if meta.nlink() > 1 {
            return Err(OpenError::HardLink {
                path: path.to_owned(),
            });
        }
        file.set_len(0).map_err(fail)?;
    } else if !kind.is_fifo() && !kind.is_char_device() {
        return Err(OpenError::Kind {
            path: path.to_owned(),
        });
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Check that a new file is private, and that an old one is truncated.
    #[test]
    fn creates_private_and_truncates() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("report");
        open_output(&path)
            .expect("open")
            .write_all(b"a long first report")
            .expect("write");
        let mode = fs::metadata(&path).expect("stat").permissions().mode();
        assert_eq!(mode & 0o177, 0, "mode {mode:o}");
        open_output(&path)
            .expect("open again")
            .write_all(b"short")
            .expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"short");
        open_output(Path::new("/dev/null")).expect("a device");
    }

    /// Check that links are refused and what they point to is untouched.
    #[test]
    fn refuses_links() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let precious = dir.path().join("precious");
        fs::write(&precious, "keep").expect("write");
        let soft = dir.path().join("soft");
        symlink(&precious, &soft).expect("symlink");
        let error = open_output(&soft).expect_err("symbolic link");
        assert!(matches!(error, OpenError::SymbolicLink { .. }), "{error}");
        let hard = dir.path().join("hard");
        fs::hard_link(&precious, &hard).expect("link");
        let error = open_output(&hard).expect_err("hard link");
        assert!(matches!(error, OpenError::HardLink { .. }), "{error}");
        assert_eq!(fs::read(&precious).expect("read"), b"keep");
        let error = open_output(&dir.path().join("no/such/dir")).expect_err("no directory");
        assert!(error.to_string().contains("no/such/dir"), "{error}");
    }
}

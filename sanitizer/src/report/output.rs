//! The file that reports go to, opened so that a privileged process cannot be tricked into
//! overwriting something else.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};

use super::folder::{Folder, FolderError};
use super::record_file::RecordFile;

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
    /// A link on the way that another user has laid.
    #[error(
        "{link} is a symbolic link of another user in a folder that everybody may write to; \
             name a file in a folder of your own with -o"
    )]
    ForeignLink {
        /// The link.
        link: PathBuf,
    },
    /// A file that another user has put there.
    #[error(
        "{path} belongs to another user, in a folder that everybody may write to; \
             name a file in a folder of your own with -o"
    )]
    ForeignFile {
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

/// Creates or empties the file that `-o` names: mode 0600 less the umask, never through a symbolic
/// link that may be another user's, nor onto another user's file or one with several names.
pub fn open_output(path: &Path) -> Result<RecordFile, OpenError> {
    let path_buf = || path.to_owned();
    let fail = |source: io::Error| OpenError::Open {
        path: path_buf(),
        source,
    };
    let fail_call = |error: Errno| match error {
        Errno::ELOOP => OpenError::SymbolicLink { path: path_buf() },
        _ => fail(error.into()),
    };
    if is_own_descriptor(path) {
        let file = File::options().append(true).open(path).map_err(fail)?;
        // Others write there as well: nothing is ever cut off.
        return Ok(RecordFile::new(file, false));
    }
    // `Path::file_name` knows no trailing slash.
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let Some(name) = path.file_name().filter(|_| !is_folder) else {
        return Err(fail_call(Errno::EISDIR));
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    let folder = Folder::open(parent).map_err(|error| match error {
        FolderError::Call(error) => fail(error.into()),
        FolderError::ForeignLink(link) => OpenError::ForeignLink { link },
    })?;
    // Emptied only after it is known what it is.
    let flags = OFlag::O_WRONLY
        | OFlag::O_CREAT
        | OFlag::O_APPEND
        | OFlag::O_NOFOLLOW
        | OFlag::O_CLOEXEC
        | OFlag::O_NOCTTY;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let fd = openat(&folder.fd, name, flags, mode).map_err(fail_call)?;
    let stat = fstat(&fd).map_err(fail_call)?;
    let file = File::from(fd);
    let meta = file.metadata().map_err(fail)?;
    let kind = meta.file_type();
    if !kind.is_file() && !kind.is_fifo() && !kind.is_char_device() {
        return Err(OpenError::Kind { path: path_buf() });
    }
    if !folder.trusts(&stat) {
        return Err(OpenError::ForeignFile { path: path_buf() });
    }
    if kind.is_file() {
        if meta.nlink() > 1 {
            return Err(OpenError::HardLink { path: path_buf() });
        }
        file.set_len(0).map_err(fail)?;
    }
    Ok(RecordFile::new(file, kind.is_file()))
}

/// Whether the path names one of our own descriptors, as shells do for `>(command)`: links of the kernel,
/// that nobody else can lay.
fn is_own_descriptor(path: &Path) -> bool {
    let Some(name) = path.to_str().and_then(|path| path.strip_prefix("/dev/")) else {
        return false;
    };
    let number = name.strip_prefix("fd/");
    matches!(name, "stdout" | "stderr")
        || number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

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

    /// Check that links on the way are followed as the path says, and that neither a loop nor a
    /// folder is taken for a file.
    #[test]
    fn follows_folders() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b")).expect("folders");
        symlink("a/../a/b", path("relative")).expect("symlink");
        symlink(path("relative"), path("a/absolute")).expect("symlink");
        open_output(&path("a/absolute/../b/report")).expect("open");
        assert!(path("a/b/report").is_file());
        symlink("loop", path("loop")).expect("symlink");
        for wrong in ["loop/report", "a/report/", "a/..", "a/b/report/file"] {
            let error = open_output(&path(wrong)).expect_err(wrong);
            assert!(matches!(error, OpenError::Open { .. }), "{error}");
        }
    }

    /// Check that what others have put into a folder that everybody may write to is not used, and
    /// that the user's own is, as well as that of the folder's owner.
    #[test]
    fn distrusts_what_others_have_laid() {
        const OTHER: Option<u32> = Some(65534);
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("temporary directory");
        let shared = dir.path().join("shared");
        fs::create_dir_all(shared.join("own")).expect("folders");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("chmod");
        let precious = dir.path().join("precious");
        fs::create_dir(&precious).expect("folder");
        for (name, owner) in [("mine", None), ("theirs", OTHER)] {
            symlink(&precious, shared.join(name)).expect("symlink");
            lchown(shared.join(name), owner, owner).expect("lchown");
        }
        open_output(&shared.join("mine/report")).expect("a link of one's own");
        let error = open_output(&shared.join("theirs/other")).expect_err("a foreign link");
        assert!(matches!(error, OpenError::ForeignLink { .. }), "{error}");
        assert!(!precious.join("other").exists());

        let planted = shared.join("planted");
        fs::write(&planted, "keep").expect("write");
        chown(&planted, OTHER, OTHER).expect("chown");
        let error = open_output(&planted).expect_err("a foreign file");
        // The kernel refuses it itself where fs.protected_regular is set.
        let refused = matches!(
            error,
            OpenError::ForeignFile { .. } | OpenError::Open { .. }
        );
        assert!(refused, "{error}");
        assert_eq!(fs::read(&planted).expect("read"), b"keep");

        // Where only its owner can write, nobody else has laid anything.
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).expect("folder");
        symlink(&precious, theirs.join("link")).expect("symlink");
        for path in [&theirs, &theirs.join("link")] {
            lchown(path, OTHER, OTHER).expect("lchown");
        }
        open_output(&theirs.join("link/report")).expect("a link in its owner's folder");
    }

    /// Check that what a shell calls `/dev/fd/N` is written to, and nothing that looks like it.
    #[test]
    fn own_descriptors() {
        use std::io::{Read as _, Write as _, pipe};
        use std::os::fd::AsRawFd as _;
        let (mut reader, writer) = pipe().expect("pipe");
        let path = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        let mut file = open_output(&path).expect("open");
        file.write_all(b"a race\n").expect("write");
        drop((file, writer));
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "a race\n");
        for path in [
            "/dev/fd/",
            "/dev/fd/0/../x",
            "/dev/fd/1x",
            "/dev/stdout/",
            "dev/stdout",
        ] {
            assert!(!is_own_descriptor(Path::new(path)), "{path}");
        }
    }
}

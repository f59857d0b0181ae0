//! The file that reports go to, opened so that a privileged process cannot be tricked into
//! overwriting something else.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode};

use super::descriptor::{own_descriptor, same_descriptor};
use super::record_file::RecordFile;
use crate::kernel::folder::{Folder, FolderError};

/// Why a report file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Opening failed.
    #[error("cannot open {path} to write to it: {source}; name a file that you may write")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The name is a symbolic link.
    #[error(
        "{path} is a symbolic link, which nothing is written through; \
             name the file itself"
    )]
    SymbolicLink {
        /// The file.
        path: PathBuf,
    },
    /// The file has further names, and one of them may be somebody else's.
    #[error(
        "{path} has other hard links, so writing would change another file as well; \
             remove it or name another file"
    )]
    HardLink {
        /// The file.
        path: PathBuf,
    },
    /// A link on the way that another user has laid.
    #[error(
        "{link} is a symbolic link that another user may have laid; \
             name the folder that it leads to, or one of your own"
    )]
    ForeignLink {
        /// The link.
        link: PathBuf,
    },
    /// A file that another user has put there.
    #[error(
        "{path} belongs to another user; \
             remove it, or name a file in a folder of your own"
    )]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// Not something to write a report to.
    #[error(
        "{path} is neither a regular file, a pipe nor a character device; \
             name another file"
    )]
    Kind {
        /// The file.
        path: PathBuf,
    },
}

/// Creates or empties the file that `-o` names: mode 0600 less the umask, never through a symbolic
/// link that may be another user's, nor onto another user's file or one with several names.
pub fn open_output(path: &Path) -> Result<RecordFile, OpenError> {
    open_as(path, true)
}

/// The same for a file that was moved away meanwhile: what has its name by now is not emptied. Who asks for this without having moved anything loses nothing.
pub fn reopen_output(path: &Path) -> Result<RecordFile, OpenError> {
    open_as(path, false)
}

fn open_as(path: &Path, is_emptied: bool) -> Result<RecordFile, OpenError> {
    let path_buf = || path.to_owned();
    let fail = |source: io::Error| OpenError::Open {
        path: path_buf(),
        source,
    };
    let fail_call = |error: Errno| match error {
        Errno::ELOOP => OpenError::SymbolicLink { path: path_buf() },
        _ => fail(error.into()),
    };
    if let Some(number) = own_descriptor(path) {
        let file = same_descriptor(number).map_err(fail_call)?;
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
    let file = match folder.entry(name).map_err(fail_call)? {
        Some((entry, stat)) => {
            judge(path, &folder, &stat)?;
            // What was looked at, not what has its name by now. A pipe of one's own waits for its reader.
            // Of this thread, which may have descriptors of its own.
            let again = format!("/proc/thread-self/fd/{}", entry.as_raw_fd());
            open(again.as_str(), WRITING, Mode::empty())
        }
        None => {
            let mode = Mode::S_IRUSR | Mode::S_IWUSR;
            let flags = WRITING | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
            openat(&folder.fd, name, flags, mode)
        }
    };
    let file = File::from(file.map_err(fail_call)?);
    // Emptied only after it is known what it is.
    let is_file = file.metadata().map_err(fail)?.is_file();
    if is_file && is_emptied {
        file.set_len(0).map_err(fail)?;
    }
    Ok(RecordFile::new(file, is_file))
}

/// How a report is written.
const WRITING: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_APPEND)
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NOCTTY);

/// Whether a report may be written to something that exists.
pub(super) fn judge(path: &Path, folder: &Folder, stat: &FileStat) -> Result<(), OpenError> {
    let path = path.to_owned();
    let kind = stat.st_mode & libc::S_IFMT;
    match kind {
        libc::S_IFREG | libc::S_IFIFO | libc::S_IFCHR => {}
        libc::S_IFLNK => return Err(OpenError::SymbolicLink { path }),
        libc::S_IFDIR => {
            let source = Errno::EISDIR.into();
            return Err(OpenError::Open { path, source });
        }
        _ => return Err(OpenError::Kind { path }),
    }
    let is_file = kind == libc::S_IFREG;
    if is_file && stat.st_nlink > 1 {
        return Err(OpenError::HardLink { path });
    }
    if folder.is_safe(stat) || is_file && folder.is_of_owner(stat) {
        Ok(())
    } else {
        Err(OpenError::ForeignFile { path })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    /// Check that a file is opened by threads that have descriptors of their own.
    #[test]
    fn opened_by_a_thread_with_descriptors_of_its_own() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("report");
        fs::write(&path, "first\n").expect("write");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::kernel::descriptors::own_table().expect("descriptors of its own");
                let mut file = reopen_output(&path).expect("the file that is there");
                file.write_all(b"second\n").expect("write");
            });
        });
        assert_eq!(fs::read(&path).expect("read"), b"first\nsecond\n");
    }

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

    /// Check that what was opened anew keeps what it has, that a file which was moved away gets a new one of its name, and that links are refused as ever.
    #[test]
    fn opens_anew() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("report");
        let append = |text: &[u8]| reopen_output(&path).expect("open").write_all(text);
        open_output(&path)
            .expect("open")
            .write_all(b"1")
            .expect("write");
        append(b"2").expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"12");
        fs::rename(&path, dir.path().join("report.1")).expect("rename");
        append(b"3").expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"3");
        fs::remove_file(&path).expect("remove");
        symlink(dir.path().join("report.1"), &path).expect("symlink");
        let error = reopen_output(&path).expect_err("symbolic link");
        assert!(matches!(error, OpenError::SymbolicLink { .. }), "{error}");
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

        // In a folder of his own, another user can lay links and pipes as well; his files are his.
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).expect("folder");
        symlink(&precious, theirs.join("link")).expect("symlink");
        nix::unistd::mkfifo(&theirs.join("pipe"), Mode::S_IRWXU).expect("mkfifo");
        fs::write(theirs.join("report"), "an old one").expect("write");
        for path in ["", "link", "pipe", "report"] {
            lchown(theirs.join(path), OTHER, OTHER).expect("lchown");
        }
        let error = open_output(&theirs.join("link/report")).expect_err("a link of its owner's");
        assert!(matches!(error, OpenError::ForeignLink { .. }), "{error}");
        let error = open_output(&theirs.join("pipe")).expect_err("a pipe that nobody reads");
        assert!(matches!(error, OpenError::ForeignFile { .. }), "{error}");
        open_output(&theirs.join("report")).expect("its owner's file");
        open_output(&theirs.join("new")).expect("a new file");
    }
}

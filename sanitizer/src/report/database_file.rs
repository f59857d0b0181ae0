//! The file of a database, found with the same distrust as that of `-o` (`output.rs`): a privileged process is not to be tricked into writing to something else.
//!
//! SQLite opens it by its name, and puts further files beside it as it pleases. It resolves links in the name before it opens the file (`unixFullPathname` in its `os_unix.c`; the
//! `O_NOFOLLOW` of its open helps only against what comes after that), so that whoever may write to the folder could lay one between our look and its own. So the folder must
//! be the user's or root's, and none to which everybody, or where gwp-race is root anybody else, may write.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{FileStat, Mode},
};

use super::output::{OpenError, judge};
use crate::kernel::folder::{Folder, FolderError};

/// What SQLite appends to the name for its further files (<https://www.sqlite.org/tempfiles.html>).
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Why a file cannot be that of a database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseFileError {
    /// The same as with a report.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is not there.
    #[error("there is no {path}; a run with --store makes it, name that file")]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// It is no file.
    #[error("{path} is no regular file; name another one")]
    Kind {
        /// The file.
        path: PathBuf,
    },
    /// Others may put files beside it.
    #[error(
        "everybody may write to {folder}, where a database has further files beside it; name a file in a folder of your own, such as {folder}/races/races.db"
    )]
    SharedFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// Somebody else may put another file in its place.
    #[error(
        "{folder} belongs to another user, or others of its group may write to it; name a file in a folder of your own"
    )]
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The name is no text.
    #[error("the name {path} is not in UTF-8, which that of a database must be; name another file")]
    Name {
        /// The file.
        path: PathBuf,
    },
}

/// Sees that a file may be that of a database, and makes it where it is not there (mode 0600 less the umask) if that is wanted. Its path without links.
///
/// # Errors
/// Says why it may not be.
pub fn database_file(path: &Path, is_made: bool) -> Result<PathBuf, DatabaseFileError> {
    let fail = |error: Errno| OpenError::Open {
        path: path.to_owned(),
        source: error.into(),
    };
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let Some(name) = path.file_name().filter(|_| !is_folder) else {
        return Err(fail(Errno::EISDIR).into());
    };
    let folder = Folder::open(path.parent().unwrap_or(Path::new("")));
    let folder = folder.map_err(|error| match error {
        FolderError::Call(error) => fail(error),
        FolderError::ForeignLink(link) => OpenError::ForeignLink { link },
    })?;
    let real = fs::read_link(format!("/proc/thread-self/fd/{}", folder.fd.as_raw_fd()))
        .map_err(|error| fail(errno(&error)))?;
    if folder.is_open_to_all() {
        return Err(DatabaseFileError::SharedFolder { folder: real });
    }
    if folder.is_foreign() {
        return Err(DatabaseFileError::ForeignFolder { folder: real });
    }
    let found = |name: &OsStr| -> Result<Option<FileStat>, DatabaseFileError> {
        let path = path.with_file_name(name);
        let Some((_, stat)) = folder.entry(name).map_err(fail)? else {
            return Ok(None);
        };
        judge(&path, &folder, &stat)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(DatabaseFileError::Kind { path });
        }
        Ok(Some(stat))
    };
    for beside in BESIDE {
        let mut name = OsString::from(name);
        name.push(beside);
        found(&name)?;
    }
    if found(name)?.is_none() {
        if !is_made {
            return Err(DatabaseFileError::Absent {
                path: path.to_owned(),
            });
        }
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&folder.fd, name, flags, mode) {
            // Another one who has just made it has done what was wanted, if it is one of ours.
            Err(Errno::EEXIST) => drop(found(name)?),
            Err(error) => return Err(fail(error).into()),
            Ok(_) => {}
        }
    }
    Ok(real.join(name))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Check which files may be that of a database, that a new one is private, and that what cannot be is told with what to name instead.
    #[test]
    fn files_of_databases() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().canonicalize().unwrap();
        let file = folder.join("races.db");
        assert!(matches!(
            database_file(&file, false),
            Err(DatabaseFileError::Absent { .. })
        ));
        assert_eq!(database_file(&file, true).unwrap(), file);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o77, 0);
        // Links on the way that are one's own are followed.
        symlink(&folder, folder.join("here")).unwrap();
        assert_eq!(
            database_file(&folder.join("here/races.db"), false).unwrap(),
            file
        );
        let refused = |path: &Path| database_file(path, true).unwrap_err().to_string();
        for path in [
            folder.clone(),
            folder.join("x/"),
            folder.join("absent/races.db"),
        ] {
            let error = refused(&path);
            assert!(error.contains("name a file"), "{error}");
        }
        symlink(&file, folder.join("link.db")).unwrap();
        let error = refused(&folder.join("link.db"));
        assert!(error.contains("is a symbolic link"), "{error}");
        symlink(&file, folder.join("races.db-wal")).unwrap();
        let error = refused(&file);
        assert!(error.contains("races.db-wal is a symbolic link"), "{error}");
        fs::remove_file(folder.join("races.db-wal")).unwrap();
        let pipe = folder.join("pipe.db");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert!(refused(&pipe).contains("no regular file"));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        let error = refused(&file);
        assert!(error.contains("everybody may write to"), "{error}");
        if nix::unistd::geteuid().is_root() {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
            assert!(refused(&file).contains("folder of your own"));
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
            assert!(refused(&file).contains("belongs to another user"));
        }
    }
}

//! Who may write a file that tells a process with rights what to do. As with sshd's `StrictModes` (sshd_config(5)) and sudo's `sudoers`: the
//! file, and each folder on the way to it, belongs to root or to whoever runs this, and nobody else may write there. In a folder whose files are their
//! owners' alone (`/tmp`, the sticky bit of chmod(1)) others cannot replace it.

use std::{
    fs::{self, Metadata},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use super::Named;

/// From `include/uapi/linux/stat.h`: the group or others may write.
const OTHERS_WRITE: u32 = 0o022;
/// Files in it may be removed by their owners alone.
const STICKY: u32 = 0o1000;

/// Why a file is not believed.
#[derive(Debug, thiserror::Error)]
pub enum WritersError {
    /// It cannot be found out who may write it.
    #[error("cannot find out who may write {path}: {source}; look at it: namei -l {path}")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It belongs to another user.
    #[error(
        "{place} belongs to user {owner}, and {path} tells gwp-race what to do with its rights; give it to root: chown root {place}"
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// It, or the folder.
        place: PathBuf,
        /// The user.
        owner: u32,
    },
    /// Others may write there.
    #[error(
        "others than its owner may write to {place}, and {path} tells gwp-race what to do with its rights; take that from them: chmod go-w {place}"
    )]
    Others {
        /// The file.
        path: PathBuf,
        /// It, or the folder.
        place: PathBuf,
    },
}

impl Named {
    /// Whether root and whoever runs this are the only ones who may write it. `path`: as it was named.
    ///
    /// # Errors
    /// They are not.
    pub fn check_writers(&self, path: &Path) -> Result<(), WritersError> {
        let unknown = |source| WritersError::Unknown {
            path: path.to_owned(),
            source,
        };
        let about = self.place.metadata().map_err(unknown)?;
        check(path, path, &about)?;
        // Where it really is, whatever links have led there.
        let own = format!("/proc/thread-self/fd/{}", self.place.as_raw_fd());
        let real = fs::read_link(own).map_err(unknown)?;
        for folder in real.ancestors().skip(1) {
            let about = fs::symlink_metadata(folder).map_err(unknown)?;
            check(path, folder, &about)?;
        }
        Ok(())
    }
}

fn check(path: &Path, place: &Path, about: &Metadata) -> Result<(), WritersError> {
    let (path, place) = (path.to_owned(), place.to_owned());
    let owner = about.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        return Err(WritersError::Owner { path, place, owner });
    }
    let mode = about.permissions().mode();
    let is_kept = about.is_dir() && mode & STICKY != 0;
    if mode & OTHERS_WRITE != 0 && !is_kept && !is_null(about) {
        return Err(WritersError::Others { path, place });
    }
    Ok(())
}

/// Everybody may write to `/dev/null`, and nothing comes of it.
fn is_null(about: &Metadata) -> bool {
    super::NULL == (libc::major(about.rdev()), libc::minor(about.rdev()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn checked(path: &Path) -> Result<(), WritersError> {
        Named::find(path).unwrap().check_writers(path)
    }

    /// Check that a file is believed that nobody else may write, through links and below a folder such as /tmp, and neither where others may write
    /// it, nor a folder on the way, nor where it is another user's.
    #[test]
    fn others_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("etc");
        fs::create_dir(&below).unwrap();
        set_mode(&below, 0o755);
        let [file, link] = ["fleet.toml", "link"].map(|name| below.join(name));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        set_mode(&file, 0o644);
        for path in [&file, &link, Path::new("/dev/null")] {
            checked(path).unwrap();
        }
        for mode in [0o664, 0o646] {
            set_mode(&file, mode);
            let error = checked(&link).unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
        }
        set_mode(&file, 0o644);
        set_mode(&below, 0o777);
        let error = checked(&file).unwrap_err();
        assert!(
            matches!(&error, WritersError::Others { place, .. } if *place == below),
            "{error}"
        );
        set_mode(&below, 0o1777);
        checked(&file).unwrap();
        if geteuid().is_root() {
            let other = nix::unistd::Uid::from_raw(12345);
            nix::unistd::chown(&file, Some(other), None).unwrap();
            let error = checked(&file).unwrap_err().to_string();
            assert!(error.contains("user 12345"), "{error}");
        }
    }
}

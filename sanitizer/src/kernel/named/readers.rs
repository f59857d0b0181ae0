//! Who may read a file that has a secret, such as a token or a key. As with the keys of ssh(1): nobody else than root, whoever runs this, and those of a group that one of
//! these has chosen.

use std::{
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use super::Named;

/// From `include/uapi/linux/stat.h` (`S_IRWXO`): what others may do. Those who may write to a secret can put their own there.
const OTHERS: u32 = 0o007;

/// Why a secret is none.
#[derive(Debug, thiserror::Error)]
pub enum ReadersError {
    /// It cannot be found out who may read it.
    #[error("cannot find out who may read {path}: {source}; look at it: namei -l {path}")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It belongs to another user.
    #[error(
        "{path} has a secret and belongs to user {owner}; give it to root, or to whoever runs gwp-race: chown root {path}"
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// The user.
        owner: u32,
    },
    /// Everybody may do something with it.
    #[error(
        "{path} has a secret, and everybody on this machine may read or change it; make a new secret, and keep it from others: chmod o= {path}"
    )]
    Others {
        /// The file.
        path: PathBuf,
    },
}

impl Named {
    /// Whether a secret is one. `path`: as it was named.
    ///
    /// # Errors
    /// It is another user's, or everybody may read or change it.
    pub fn check_readers(&self, path: &Path) -> Result<(), ReadersError> {
        let path = path.to_owned();
        let about = match self.place.metadata() {
            Ok(about) => about,
            Err(source) => return Err(ReadersError::Unknown { path, source }),
        };
        let owner = about.uid();
        if owner != 0 && owner != geteuid().as_raw() {
            return Err(ReadersError::Owner { path, owner });
        }
        if about.permissions().mode() & OTHERS != 0 {
            return Err(ReadersError::Others { path });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// Check that a secret is taken from whoever may have it, through a link as well, and that one which everybody may read or write, or another user's, is told with the command that mends it.
    #[test]
    fn secrets_are_secret() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["token", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "secret").unwrap();
        symlink(&file, &link).unwrap();
        let check = || Named::find(&link).unwrap().check_readers(&link);
        for (mode, is_secret) in [
            (0o600, true),
            (0o440, true),
            (0o604, false),
            (0o644, false),
            (0o602, false),
        ] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let checked = check();
            assert_eq!(checked.is_ok(), is_secret, "{mode:o}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("chmod o= "), "{error}");
            }
        }
        if geteuid().is_root() {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
            let error = check().unwrap_err().to_string();
            assert!(error.contains("user 12345"), "{error}");
        }
    }
}

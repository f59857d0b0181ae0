//! Files with secrets: tokens and keys.

use std::{
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use crate::kernel::{named::Named, rights::as_caller};

/// The longest file.
const LONGEST: u64 = 1 << 20;
/// The mode of those who are neither the owner nor of the group.
const OTHERS: u32 = 0o007;

/// Reads one, unless everybody could.
///
/// # Errors
/// Says what is wrong with it, and what to do.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let text = as_caller(|| text_of(path))?;
    text.map_err(|error| anyhow::anyhow!("cannot take {}: {error}", path.display()))
}

fn text_of(path: &Path) -> io::Result<String> {
    let file = Named::find(path)?.open()?;
    if file.metadata()?.mode() & OTHERS != 0 {
        return Err(io::Error::other(format!(
            "everybody on this machine may read or change it; make a new secret, and keep it from others: chmod o= {}",
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt as _,
    };

    use super::*;

    /// Check that a file which everybody may read or write is refused, with what to type.
    #[test]
    fn what_everybody_reads_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "secret\n").unwrap();
        for (mode, is_good) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match read(&path) {
                Ok(text) => assert!(is_good && text == "secret\n", "{mode:o}"),
                Err(error) => assert!(
                    !is_good && error.to_string().contains("chmod o="),
                    "{error}"
                ),
            }
        }
        assert!(read(&folder.path().join("absent")).is_err());
    }
}

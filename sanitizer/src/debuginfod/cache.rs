//! The folder in which all clients of a user keep what servers have sent, as elfutils' client lays it out: `ID/debuginfo`. An empty file says that no server had
//! it when it was made.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::symbols::served_file;

/// For how long nobody is asked again for what no server had (`cache_miss_s` of elfutils).
const MISS: Duration = Duration::from_secs(600);

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

/// What is there of a build id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Its debug file.
    File,
    /// A note that no server had it, not long ago.
    Miss,
    /// Nothing that counts.
    Nothing,
}

impl Cache {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn place(&self, build_id: &[u8]) -> PathBuf {
        served_file(&self.folder, build_id)
    }

    /// What is there.
    pub(super) fn look(&self, build_id: &[u8], now: SystemTime) -> Kept {
        let Ok(about) = fs::metadata(self.place(build_id)) else {
            return Kept::Nothing;
        };
        if about.len() > 0 {
            return Kept::File;
        }
        let age = about.modified().ok().map(|made| now.duration_since(made));
        match age {
            Some(Ok(age)) if age < MISS => Kept::Miss,
            _ => Kept::Nothing,
        }
    }

    /// A file to be written, which has its name once it is [kept](Partial::keep).
    pub(super) fn begin(&self, build_id: &[u8]) -> io::Result<Partial> {
        /// The user's own: it tells which programs he looks into.
        const MODE: u32 = 0o700;
        let place = self.place(build_id);
        if let Some(folder) = place.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(MODE).create(folder)?;
        }
        // Named as elfutils' client names its own, so that whoever tidies the cache knows it.
        let path = place.with_extension(format!("{:08x}", fastrand::u32(..)));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        Ok(Partial { file, path, place })
    }

    /// Notes that no server has it.
    pub(super) fn note_miss(&self, build_id: &[u8]) -> io::Result<()> {
        self.begin(build_id)?.keep()
    }
}

/// A file that has not come to its end. It is gone when this is.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) file: File,
    path: PathBuf,
    place: PathBuf,
}

impl Partial {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(super) fn keep(self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It has another name where it is kept.
        let _ = fs::remove_file(&self.path);
    }
}

//! The source around the accesses of a race, where the files are at hand.
//!
//! A file's name is told by debug information, so by the watched program. It is looked up in that program's root, and opened with what the program itself may do
//! with files: as it could when its modules were looked at, and as it can now, if it lives still. Where the user says that such files are in a folder of his
//! (`--source-map`), they are looked for there alone, and opened with his rights; no name leads out of that folder.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::unistd::Pid;

use crate::kernel::foreign::{ForeignError, Purpose, Root};
use crate::kernel::process::thread_cpu_time_ns;
use crate::kernel::rights::{FileRights, as_caller};
use crate::report::{Access, Excerpt, Race, SourceMap, own_frame};
use crate::symbols::{Source, Symbolizer};
use crate::tracee::file_rights;

/// See the module.
pub(super) struct SourceFiles {
    map: SourceMap,
    /// The folders of the map, held.
    folders: HashMap<PathBuf, Root>,
    /// Of processes, when their modules were looked at.
    rights: HashMap<u32, FileRights>,
    /// CPU time that was used in other threads, ns.
    pub(super) cpu_ns: u64,
}

impl SourceFiles {
    /// Opens the folders of the map.
    ///
    /// # Errors
    /// Fails where one cannot be opened.
    pub(super) fn new(map: SourceMap) -> anyhow::Result<Self> {
        let mut folders = HashMap::new();
        for folder in map.folders() {
            let root = as_caller(|| Root::folder(folder))?
                .context("cannot use a folder of --source-map")?;
            folders.insert(folder.to_owned(), root);
        }
        Ok(Self {
            map,
            folders,
            rights: HashMap::new(),
            cpu_ns: 0,
        })
    }

    /// What a process may do with files, as far as that is known.
    pub(super) fn set_rights(&mut self, pid: u32, rights: Option<FileRights>) {
        match rights {
            Some(rights) => self.rights.insert(pid, rights),
            None => self.rights.remove(&pid),
        };
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.rights.remove(&pid);
    }

    /// Adds the source to both sides of a race.
    pub(super) fn add_to(&mut self, race: &mut Race, symbolizer: &Symbolizer) {
        for access in &mut race.accesses {
            self.add_to_side(race.pid, access, symbolizer);
        }
    }

    fn add_to_side(&mut self, pid: u32, access: &mut Access, symbolizer: &Symbolizer) {
        let own = own_frame(access);
        let Some(frame) = own.and_then(|number| access.stack.get_mut(number)) else {
            return;
        };
        let (Some(file), Some(line)) = (frame.file.as_deref(), frame.line) else {
            return;
        };
        let Some(source) = symbolizer.source_at(frame.pc.0) else {
            return;
        };
        match self.excerpt(pid, source, file, line) {
            Ok(excerpt) => frame.source = Some(excerpt),
            Err(why) => tracing::info!("no source of {file:?}: {why}"),
        }
    }

    /// Lines of a file that a module names; else why not, in a word.
    fn excerpt(
        &mut self,
        pid: u32,
        source: &Source,
        file: &str,
        line: u32,
    ) -> Result<Excerpt, &'static str> {
        let opened = match self.map.find(file) {
            Some((folder, rest)) => {
                let root = self.folders.get(folder).ok_or("missing")?;
                as_caller(|| open(root, &rest)).map_err(|_| "forbidden")??
            }
            None => self.open_as_process(pid, source, Path::new(file))?,
        };
        let about = opened.metadata().map_err(|_| "unreadable")?;
        let read = Excerpt::read(&opened, line).map_err(|_| "unreadable")?;
        let mut excerpt = read.ok_or("unsuitable")?;
        let modified = (about.mtime(), about.mtime_nsec());
        excerpt.changed = source.opened().identity.is_before(modified);
        Ok(excerpt)
    }

    /// Opens a file as a process would that has mapped what names it.
    fn open_as_process(
        &mut self,
        pid: u32,
        source: &Source,
        path: &Path,
    ) -> Result<File, &'static str> {
        if !path.is_absolute() {
            return Err("relative");
        }
        let root = source.root().ok_or("outside")?;
        let before = self.rights.get(&pid).ok_or("forbidden")?.clone();
        // Somebody else's who has got its id does no harm: both must be enough.
        let now = match file_rights(Pid::from_raw(pid.cast_signed())) {
            Ok(rights) => Some(rights.ok_or("forbidden")?),
            Err(_) => None,
        };
        let now = now.filter(|now| *now != before);
        let opened = self.open_with(&before, root, path)?;
        if let Some(now) = now {
            let again = self.open_with(&now, root, path)?;
            // A name can lead elsewhere meanwhile.
            if identity(&again)? != identity(&opened)? {
                return Err("replaced");
            }
        }
        Ok(opened)
    }

    fn open_with(
        &mut self,
        rights: &FileRights,
        root: &Root,
        path: &Path,
    ) -> Result<File, &'static str> {
        let (opened, used) = rights
            .with(|| (open(root, path), thread_cpu_time_ns()))
            .map_err(|error| {
                tracing::debug!("no source: {error}");
                "forbidden"
            })?;
        self.cpu_ns += used;
        opened
    }
}

fn identity(file: &File) -> Result<(u64, u64), &'static str> {
    let about = file.metadata().map_err(|_| "unreadable")?;
    Ok((about.dev(), about.ino()))
}

fn open(root: &Root, path: &Path) -> Result<File, &'static str> {
    let opened = root.file(path, Purpose::Debug).and_then(|file| file.open());
    opened.map_err(|error| word(&error))
}

fn word(error: &ForeignError) -> &'static str {
    match error.errno() {
        Some(libc::ENOENT | libc::ENOTDIR) => "missing",
        Some(libc::EACCES | libc::EPERM) => "forbidden",
        Some(_) => "unreadable",
        None => "unsuitable",
    }
}

#[cfg(test)]
mod tests;

//! What tells one executed file from another: where the kernel keeps it (`linux_binprm`, `file`, `inode` and `super_block`, by the
//! running kernel's type information), and whether a file that was opened is that one.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

use gwp_race_abi::descent::{ExecutedFile, FileOffsets, PATH};

use super::{
    btf::{Btf, BtfError},
    foreign::{About, ForeignError, ForeignFile, Purpose, Root},
};

/// What came of looking for a file that was executed.
#[derive(Debug)]
pub enum Search {
    /// This is it.
    Found(ForeignFile),
    /// A process serves the file system in which it may be, with this device, and whoever has searched may not wait for that.
    Served(u64),
    /// It cannot be found any more.
    Nowhere,
}

/// What a process has begun to execute, as the kernel told at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The file; of a script its interpreter.
    pub file: ExecutedFile,
    /// The name by which it was found: relative to where the process was, or absolute in its root. Empty where it was too long.
    pub path: PathBuf,
    /// Whoever was its parent, or another process that finds it by that name; 0 where nobody is known.
    pub parent: u32,
}

impl Executed {
    /// As programs in the kernel tell it: the file, the beginning of its name, and a process that finds it by that; nothing where the file is not known.
    pub(super) fn told(file: ExecutedFile, path: &[u8; PATH], parent: u32) -> Option<Self> {
        let path = told_text(path);
        // Without its end it may be that of another one.
        let is_whole = path.len() + 1 < PATH;
        let path = if is_whole { path } else { &[] };
        (file.inode != 0).then(|| Self {
            file,
            path: PathBuf::from(OsStr::from_bytes(path)),
            parent,
        })
    }

    /// What a process executes, as `/proc` tells; nothing of one that has ended.
    #[must_use]
    pub fn by(pid: u32) -> Option<Self> {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let about = About::at(&link).ok()?;
        Some(Self {
            file: ExecutedFile {
                device: about.device,
                inode: about.inode,
                size: about.size,
                changed: about.changed.0,
            },
            path: std::fs::read_link(&link).unwrap_or_default(),
            parent: pid,
        })
    }

    /// Whether a file is the one that was executed, and has not changed since.
    #[must_use]
    pub fn is(&self, about: &About) -> bool {
        self.has(about.inode, about.size, about.changed.0)
    }

    /// The same of a file of which this is known. `changed`: when it was changed last, in seconds.
    #[must_use]
    pub const fn has(&self, inode: u64, size: u64, changed: i64) -> bool {
        let file = &self.file;
        // Devices are not compared: file systems of several layers or volumes give other ones to stat(2).
        inode == file.inode && size == file.size && (file.changed == 0 || changed == file.changed)
    }

    /// Finds it: through the process that executes it, or by its name, as its parent and some other processes see it.
    #[must_use]
    pub fn find(&self, by: Option<u32>, others: &[u32], purpose: Purpose) -> Search {
        let executed = by.map(|pid| ForeignFile::executed(pid, purpose));
        let processes = std::iter::once(&self.parent).chain(others);
        let named = processes
            .filter(|&&pid| pid != 0 && !self.path.as_os_str().is_empty())
            .filter_map(|&pid| self.seen_by(pid, purpose));
        let mut served = None;
        for found in executed.into_iter().chain(named) {
            match found {
                Ok(file) if self.is(file.about()) => return Search::Found(file),
                Ok(_) => {}
                Err(error) => served = served.or(error.served()),
            }
        }
        served.map_or(Search::Nowhere, Search::Served)
    }

    /// What a process finds by that name; nothing where it is not known where that begins.
    fn seen_by(&self, pid: u32, purpose: Purpose) -> Option<Result<ForeignFile, ForeignError>> {
        let root = Root::of(pid).ok()?;
        let path = if self.path.is_absolute() {
            self.path.clone()
        } else {
            let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            root.inside(&folder)?.join(&self.path)
        };
        Some(root.file(&path, purpose))
    }
}

/// A text that ends with a 0, or fills all that there is.
pub(super) fn told_text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}

/// The offsets of a kernel; all 0 where its structures are others.
pub(super) fn offsets(btf: &Btf<'_>) -> FileOffsets {
    found(btf).unwrap_or_default()
}

fn found(btf: &Btf<'_>) -> Result<FileOffsets, BtfError> {
    let binprm = btf.structure("linux_binprm")?;
    let file = btf.structure("file")?;
    let inode = btf.structure("inode")?;
    let superblock = btf.structure("super_block")?;
    // Of Linux 6.11, 6.6 and before.
    let changed = ["i_ctime_sec", "__i_ctime.tv_sec", "i_ctime.tv_sec"];
    let changed = changed
        .iter()
        .find_map(|name| btf.member(inode, name).ok())
        .unwrap_or(0);
    Ok(FileOffsets {
        are_known: 1,
        binprm_file: btf.member(binprm, "file")?,
        binprm_interp: btf.member(binprm, "interp")?,
        file_inode: btf.member(file, "f_inode")?,
        inode_number: btf.member(inode, "i_ino")?,
        inode_size: btf.member(inode, "i_size")?,
        inode_changed: changed,
        inode_superblock: btf.member(inode, "i_sb")?,
        superblock_device: btf.member(superblock, "s_dev")?,
    })
}

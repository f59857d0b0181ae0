//! The ABI of the programs that tell who executes what on a machine, and who of those ends. They are one set a machine.

use core::sync::atomic::AtomicU64;

use crate::{
    KernelOffsets,
    descent::{ExecutedFile, FileOffsets, PATH},
};

/// Files that are remembered to be of no interest; those that were executed longest ago are forgotten first.
pub const MOST_FILES: usize = 16_384;

/// Processes that were told of and live.
pub const MOST_PROCESSES: usize = 16_384;

/// Bytes for what is told and not read yet.
pub const RING: usize = 256 * 1024;

/// What the programs share with user space.
#[repr(C)]
pub struct Control {
    /// User space's pid namespace (the kernel's pointer to it): all ids here are those of that namespace. 0 until
    /// user space has had `discovery_learn` run.
    pub pid_namespace: AtomicU64,
    /// How many namespaces it is below the initial one.
    pub pid_level: AtomicU64,
    /// What was not told for want of room.
    pub lost: AtomicU64,
    /// Programs that were executed and not told of, since they are of no interest.
    pub dropped: AtomicU64,
    /// Offsets for reading tasks.
    pub offsets: KernelOffsets,
    /// Offsets for reading what is executed.
    pub file_offsets: FileOffsets,
    /// `task_struct.exit_code`
    pub task_exit_code: u32,
    /// Keeps the layout free of implicit padding.
    pub reserved: u32,
}

/// Which file it is, changed or not: device (as the kernel writes it) and inode.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// `super_block.s_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// The state in which a file was of no interest. In any other state it may be of some.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// `st_size`.
    pub size: u64,
    /// `st_ctime`, in seconds; 0 where that is not known.
    pub changed: i64,
}

impl FileKey {
    /// That of an executed file.
    #[must_use]
    pub const fn of(file: &ExecutedFile) -> Self {
        Self {
            device: file.device,
            inode: file.inode,
        }
    }
}

impl FileState {
    /// That of an executed file.
    #[must_use]
    pub const fn of(file: &ExecutedFile) -> Self {
        Self {
            size: file.size,
            changed: file.changed,
        }
    }
}

/// What is told.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// One of the constants below.
    pub kind: u32,
    /// The process.
    pub pid: u32,
    /// Its parent, of one that executes a program; 0 where that is not known.
    pub parent: u32,
    /// How it has ended, of one that has, as wait(2) tells: in bits 8 to 15 what it has given to exit(2), in bits 0 to 6 the signal that has killed it.
    pub status: u32,
}

/// What is told of one that executes a program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// What is told of all.
    pub event: Event,
    /// What it executes, all 0 where that is not known.
    pub file: ExecutedFile,
    /// The name under which that was found, with a 0 at its end; cut off where it is longer.
    pub path: [u8; PATH],
}

/// It executes a program from now on: an [`Executed`].
pub const EXECUTES: u32 = 1;
/// Its last thread has ended.
pub const ENDED: u32 = 2;

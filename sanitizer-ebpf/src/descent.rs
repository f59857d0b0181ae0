//! The ABI of the programs that follow the processes below the started one: who forks, executes and
//! ends. They are the daemon's, one set for a session.

use core::sync::atomic::AtomicU64;

use crate::KernelOffsets;

/// Processes that can be followed at the same time.
pub const MOST: usize = 8192;

/// What is noted of a followed process: its forks are told of.
pub const TELLS_FORKS: u32 = 1;

/// What the programs share with the daemon.
#[repr(C)]
pub struct Control {
    /// The daemon's pid namespace (the kernel's pointer to it): all ids here are those of that
    /// namespace. 0 until the daemon has had `descent_learn` run.
    pub pid_namespace: AtomicU64,
    /// How many namespaces it is below the initial one.
    pub pid_level: AtomicU64,
    /// What was not told for want of room.
    pub lost: AtomicU64,
    /// Processes that could not be followed, since [`MOST`] are.
    pub unfollowed: AtomicU64,
    /// Offsets for reading tasks.
    pub offsets: KernelOffsets,
    /// Offsets for reading what is executed.
    pub file_offsets: FileOffsets,
}

/// Where the kernel keeps what tells one executed file from another, in `linux_binprm`, `file`, `inode` and
/// `super_block`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOffsets {
    /// Whether the others are known.
    pub are_known: u32,
    /// `linux_binprm.file`: the file whose code is executed, of a script its interpreter.
    pub binprm_file: u32,
    /// `linux_binprm.interp`: its name.
    pub binprm_interp: u32,
    /// `file.f_inode`.
    pub file_inode: u32,
    /// `inode.i_ino` (`unsigned long`).
    pub inode_number: u32,
    /// `inode.i_size` (`loff_t`).
    pub inode_size: u32,
    /// Seconds of the last change (`time64_t`), under one of its names; 0 where it has none of these.
    pub inode_changed: u32,
    /// `inode.i_sb`.
    pub inode_superblock: u32,
    /// `super_block.s_dev` (`dev_t`).
    pub superblock_device: u32,
}

/// What is told of a followed process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// One of the constants below.
    pub kind: u32,
    /// The process.
    pub pid: u32,
    /// Its parent, of one that was forked or executes another program.
    pub by: u32,
    /// Keeps the layout free of implicit padding.
    pub reserved: u32,
    /// The name of the thread that has caused it: of one that executes a program, the program's.
    pub comm: [u8; 16],
}

/// What is told of one that executes another program: with `Event::by`, whoever its parent is now.
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

/// What tells one executed file from another: device (as the kernel writes it), inode, size, and seconds of its last change.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExecutedFile {
    /// `super_block.s_dev`, not the `st_dev` of stat(2).
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_size`.
    pub size: u64,
    /// `st_ctime`, 0 where it is not known.
    pub changed: i64,
}

/// Bytes that are told of the name of an executed file.
pub const PATH: usize = 256;

/// It was forked, by one of which that is told.
pub const FORKED: u32 = 1;
/// It executes another program now: an [`Executed`].
pub const EXECUTES: u32 = 2;
/// Its last thread has ended.
pub const ENDED: u32 = 3;

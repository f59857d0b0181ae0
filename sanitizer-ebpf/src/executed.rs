//! What is executed: its file, by what tells it from others, and its name.

use sanitizer_ebpf::descent::{ExecutedFile, FileOffsets, PATH};

use aya_ebpf::helpers::bpf_probe_read_kernel_str_bytes;

use crate::task::read_kernel;

/// The file that a `linux_binprm` is about.
#[inline(always)]
pub fn executed(offsets: &FileOffsets, binprm: u64) -> Option<ExecutedFile> {
    if offsets.are_known == 0 {
        return None;
    }
    let file = read_kernel::<u64>(binprm, offsets.binprm_file)?;
    let inode = read_kernel::<u64>(file, offsets.file_inode)?;
    let superblock = read_kernel::<u64>(inode, offsets.inode_superblock)?;
    let device = read_kernel::<u32>(superblock, offsets.superblock_device)?;
    let changed = if offsets.inode_changed == 0 {
        0
    } else {
        read_kernel::<i64>(inode, offsets.inode_changed)?
    };
    Some(ExecutedFile {
        device: u64::from(device),
        inode: read_kernel::<u64>(inode, offsets.inode_number)?,
        size: read_kernel::<u64>(inode, offsets.inode_size)?,
        changed,
    })
}

/// Writes the name under which it was found.
#[inline(always)]
pub fn write_name(offsets: &FileOffsets, binprm: u64, path: &mut [u8; PATH]) {
    path[0] = 0;
    if offsets.are_known != 0
        && let Some(name) = read_kernel::<u64>(binprm, offsets.binprm_interp)
    {
        // SAFETY: the helper checks the address.
        let _ = unsafe { bpf_probe_read_kernel_str_bytes(name as *const u8, path) };
    }
}

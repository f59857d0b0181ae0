//! Reading the kernel's structures of a task, at offsets that user space has found.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use sanitizer_ebpf::KernelOffsets;

/// A value in the kernel's memory.
#[inline(always)]
pub fn read_kernel<T>(base: u64, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(u64::from(offset)) as *const T).ok() }
}

/// A pid namespace: the kernel's pointer to it, and how many there are above it.
#[derive(Clone, Copy)]
pub struct Namespace {
    pub pointer: u64,
    pub level: u64,
}

impl Namespace {
    /// That of a task.
    #[inline(always)]
    pub fn of(offsets: &KernelOffsets, task: u64) -> Option<Self> {
        let pid = read_kernel::<u64>(task, offsets.task_thread_pid)?;
        let level = read_kernel::<u32>(pid, offsets.pid_level)?;
        let number = number_at(offsets, level);
        let pointer = read_kernel::<u64>(pid, number.wrapping_add(offsets.upid_ns))?;
        Some(Self {
            pointer,
            level: u64::from(level),
        })
    }

    /// The id of a task in it; `None` for one that is not in it.
    #[inline(always)]
    pub fn id_of(self, offsets: &KernelOffsets, task: u64) -> Option<u32> {
        if self.level == 0 {
            return read_kernel::<u32>(task, offsets.task_pid);
        }
        let pid = read_kernel::<u64>(task, offsets.task_thread_pid)?;
        let level = self.level as u32;
        if read_kernel::<u32>(pid, offsets.pid_level)? < level {
            return None;
        }
        let number = number_at(offsets, level);
        if read_kernel::<u64>(pid, number.wrapping_add(offsets.upid_ns))? != self.pointer {
            return None;
        }
        read_kernel::<u32>(pid, number.wrapping_add(offsets.upid_nr))
    }

    /// The id of a task's process in it.
    #[inline(always)]
    pub fn process_of(self, offsets: &KernelOffsets, task: u64) -> Option<u32> {
        if self.level == 0 {
            return read_kernel::<u32>(task, offsets.task_tgid);
        }
        let leader = read_kernel::<u64>(task, offsets.task_group_leader)?;
        self.id_of(offsets, leader)
    }
}

/// Where a `struct pid` keeps the number of a level.
#[inline(always)]
pub fn number_at(offsets: &KernelOffsets, level: u32) -> u32 {
    offsets
        .pid_numbers
        .wrapping_add(level.wrapping_mul(offsets.upid_size))
}

//! Where the kernel keeps what the gates read of a thread.

/// Byte offsets of kernel structures, from `/sys/kernel/btf/vmlinux`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelOffsets {
    /// `task_struct.ptrace`
    pub task_ptrace: u32,
    /// `task_struct.parent`: the tracer, while traced.
    pub task_parent: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.sighand`
    pub task_sighand: u32,
    /// `task_struct.blocked`
    pub task_blocked: u32,
    /// `sighand_struct.action`
    pub sighand_action: u32,
    /// `sizeof(struct k_sigaction)`
    pub k_sigaction_size: u32,
    /// `k_sigaction.sa.sa_handler`
    pub sa_handler: u32,
    /// `task_struct.group_leader`
    pub task_group_leader: u32,
    /// `task_struct.thread_pid`
    pub task_thread_pid: u32,
    /// `pid.level`
    pub pid_level: u32,
    /// `pid.numbers`, an array of `upid`.
    pub pid_numbers: u32,
    /// `sizeof(struct upid)`
    pub upid_size: u32,
    /// `upid.nr`
    pub upid_nr: u32,
    /// `upid.ns`
    pub upid_ns: u32,
    /// `task_struct.sched_info.run_delay`; 0 where the kernel does not count it.
    pub task_run_delay: u32,
    /// `task_struct.thread.fsbase`; 0 where the kernel's type information does not name it.
    pub task_fs_base: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `signal_struct.live`
    pub signal_live: u32,
    /// `task_struct.rseq`, or `task_struct.rseq.usrptr` since Linux 6.19; 0 where the kernel's type information names neither.
    pub task_rseq: u32,
    /// `task_struct.thread_info.flags`
    pub task_flags: u32,
}

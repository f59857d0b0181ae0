//! Where the running kernel keeps the fields of its structures: the few offsets that the
//! gates read from `current`, looked up in `/sys/kernel/btf/vmlinux`. The format is the
//! kernel's Documentation/bpf/btf.rst and include/uapi/linux/btf.h.
//!
//! ```no_run
//! let offsets = gwp_race::kernel::btf::KernelOffsets::load()?;
//! println!("task_struct.ptrace is at byte {}", offsets.task_ptrace);
//! # Ok::<(), gwp_race::kernel::btf::BtfError>(())
//! ```

mod types;

use std::path::{Path, PathBuf};

pub use types::{Btf, StructId};

/// The running kernel's type information.
pub const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why a structure's layout is not known.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The type information cannot be read.
    #[error(
        "cannot read the kernel's type information in {path}: {source}; a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y is needed (every current distribution kernel is), and in a \
         container /sys must be mounted"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The type information breaks its own format.
    #[error(
        "the kernel's type information is malformed at byte {at:#x}: {what}; compare `bpftool \
         btf dump file /sys/kernel/btf/vmlinux`"
    )]
    Malformed {
        /// Byte offset in the file.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// No structure of this name.
    #[error(
        "this kernel has no `struct {name}` in its type information; it is older or configured \
         differently than gwp-race expects (Linux 6.10 or later is needed)"
    )]
    NoStruct {
        /// The name looked for.
        name: String,
    },
    /// The structure has no such member.
    #[error(
        "this kernel's `struct {name}` has no member `{member}`; it is older or configured \
         differently than gwp-race expects (Linux 6.10 or later is needed)"
    )]
    NoMember {
        /// The structure.
        name: String,
        /// The member looked for, with dots between nested ones.
        member: String,
    },
}

/// Byte offsets of what the gates read from the kernel's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOffsets {
    /// `task_struct.ptrace` (`unsigned int`; bit 0 is `PT_PTRACED`).
    pub task_ptrace: u32,
    /// `task_struct.sighand` (pointer to `sighand_struct`).
    pub task_sighand: u32,
    /// `task_struct.blocked` (`sigset_t`, 64 bits on x86-64; bit N-1 is signal N).
    pub task_blocked: u32,
    /// `task_struct.pid` (the thread id in the initial pid namespace).
    pub task_pid: u32,
    /// `task_struct.tgid` (the process id in the initial pid namespace).
    pub task_tgid: u32,
    /// `task_struct.group_leader` (pointer to `task_struct`).
    pub task_group_leader: u32,
    /// `task_struct.thread_pid` (pointer to `struct pid`).
    pub task_thread_pid: u32,
    /// `pid.level` (`unsigned int`: how many namespaces below the initial one).
    pub pid_level: u32,
    /// `pid.numbers` (array of `struct upid`, by level).
    pub pid_numbers: u32,
    /// `sizeof(struct upid)`: the stride of `pid.numbers`.
    pub upid_size: u32,
    /// `upid.nr` (`int`).
    pub upid_nr: u32,
    /// `upid.ns` (pointer to `pid_namespace`).
    pub upid_ns: u32,
    /// `task_struct.parent` (pointer to `task_struct`: the tracer, while traced).
    pub task_parent: u32,
    /// `task_struct.signal` (pointer to `signal_struct`).
    pub task_signal: u32,
    /// `signal_struct.live` (`atomic_t`: threads that have not begun to end).
    pub signal_live: u32,
    /// `task_struct.thread.fsbase` (the thread pointer, as of the last switch or system call).
    pub task_fs_base: Option<u32>,
    /// `task_struct.sched_info.run_delay` (`unsigned long long`: ns that the thread has waited for a
    /// processor). None without `CONFIG_SCHED_INFO`.
    pub task_run_delay: Option<u32>,
    /// `task_struct.rseq`, or `task_struct.rseq.usrptr` since Linux 6.19 (pointer to the thread's `struct rseq`). None without `CONFIG_RSEQ`.
    pub task_rseq: Option<u32>,
    /// `task_struct.thread_info.flags` (`unsigned long`; bit 2 is `TIF_SIGPENDING`).
    pub task_flags: Option<u32>,
    /// `sighand_struct.action` (array of `k_sigaction`; element N-1 is signal N).
    pub sighand_action: u32,
    /// `sizeof(struct k_sigaction)`: the stride of `sighand_struct.action`.
    pub k_sigaction_size: u32,
    /// `k_sigaction.sa.sa_handler` (0 is `SIG_DFL`, 1 is `SIG_IGN`).
    pub k_sigaction_handler: u32,
}

impl KernelOffsets {
    /// Reads the offsets of the running kernel.
    pub fn load() -> Result<Self, BtfError> {
        Self::from_path(Path::new(VMLINUX_BTF))
    }

    /// Reads the offsets from a raw BTF file.
    pub fn from_path(path: &Path) -> Result<Self, BtfError> {
        Self::from_btf(&Btf::parse(&read(path)?)?)
    }

    /// Looks the offsets up in parsed type information.
    pub fn from_btf(btf: &Btf<'_>) -> Result<Self, BtfError> {
        let task = btf.structure("task_struct")?;
        let sighand = btf.structure("sighand_struct")?;
        let signal = btf.structure("signal_struct")?;
        let k_sigaction = btf.structure("k_sigaction")?;
        let pid = btf.structure("pid")?;
        let upid = btf.structure("upid")?;
        let optional = |found| match found {
            Ok(offset) => Ok(Some(offset)),
            Err(BtfError::NoMember { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        Ok(Self {
            task_ptrace: btf.member(task, "ptrace")?,
            task_sighand: btf.member(task, "sighand")?,
            task_blocked: btf.member(task, "blocked")?,
            task_group_leader: btf.member(task, "group_leader")?,
            task_thread_pid: btf.member(task, "thread_pid")?,
            pid_level: btf.member(pid, "level")?,
            pid_numbers: btf.member(pid, "numbers")?,
            upid_size: btf.size(upid)?,
            upid_nr: btf.member(upid, "nr")?,
            upid_ns: btf.member(upid, "ns")?,
            task_pid: btf.member(task, "pid")?,
            task_fs_base: optional(btf.member(task, "thread.fsbase"))?,
            task_run_delay: optional(btf.member(task, "sched_info.run_delay"))?,
            task_rseq: match optional(btf.member(task, "rseq.usrptr"))? {
                None => optional(btf.member(task, "rseq"))?,
                known => known,
            },
            task_flags: optional(btf.member(task, "thread_info.flags"))?,
            task_tgid: btf.member(task, "tgid")?,
            task_parent: btf.member(task, "parent")?,
            task_signal: btf.member(task, "signal")?,
            signal_live: btf.member(signal, "live")?,
            sighand_action: btf.member(sighand, "action")?,
            k_sigaction_size: btf.size(k_sigaction)?,
            k_sigaction_handler: btf.member(k_sigaction, "sa.sa_handler")?,
        })
    }
}

impl From<KernelOffsets> for gwp_race_abi::KernelOffsets {
    fn from(offsets: KernelOffsets) -> Self {
        Self {
            task_ptrace: offsets.task_ptrace,
            task_parent: offsets.task_parent,
            task_tgid: offsets.task_tgid,
            task_pid: offsets.task_pid,
            task_sighand: offsets.task_sighand,
            task_blocked: offsets.task_blocked,
            sighand_action: offsets.sighand_action,
            k_sigaction_size: offsets.k_sigaction_size,
            sa_handler: offsets.k_sigaction_handler,
            task_group_leader: offsets.task_group_leader,
            task_thread_pid: offsets.task_thread_pid,
            pid_level: offsets.pid_level,
            pid_numbers: offsets.pid_numbers,
            upid_size: offsets.upid_size,
            upid_nr: offsets.upid_nr,
            upid_ns: offsets.upid_ns,
            task_run_delay: offsets.task_run_delay.unwrap_or(0),
            task_fs_base: offsets.task_fs_base.unwrap_or(0),
            task_signal: offsets.task_signal,
            signal_live: offsets.signal_live,
            task_rseq: offsets.task_rseq.unwrap_or(0),
            task_flags: offsets.task_flags.unwrap_or(0),
        }
    }
}

/// The bytes of a BTF file, some megabytes.
pub fn read(path: &Path) -> Result<Vec<u8>, BtfError> {
    std::fs::read(path).map_err(|source| BtfError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;

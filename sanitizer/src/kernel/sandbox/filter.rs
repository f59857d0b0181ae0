//! The filter of system calls (seccomp(2)): what is not in the list ends the process. As classic BPF
//! (`Documentation/userspace-api/seccomp_filter.rst` in the kernel).

use std::mem::offset_of;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_GET_ACTION_AVAIL, SECCOMP_RET_ALLOW,
    SECCOMP_RET_KILL_PROCESS, SECCOMP_SET_MODE_FILTER, seccomp_data, sock_filter, sock_fprog,
};

use crate::kernel::KernelError;

/// `include/uapi/linux/audit.h`.
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Numbers from this one on are those of the x32 ABI, of which nothing is used.
const X32: u32 = 0x4000_0000;

/// Calls that may be made whatever their arguments are: they concern what is open or mapped, or nothing. None of them takes a path, makes
/// a socket, a process or a thread, or reaches another process.
const ALLOWED: [i64; 23] = [
    // What is open: files, and the socket.
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_close,
    // The allocator.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // It asks for the number of processors when there is no memory left.
    libc::SYS_sched_getaffinity,
    // Locks, the seed of hash tables, time where the vDSO does not know it.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    // Signal handlers, abort(3) and the end.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Whether this kernel has such filters.
pub(super) fn is_there() -> Result<(), KernelError> {
    let action = SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the call reads the number and writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(KernelError::last("seccomp", "this process")),
    }
}

/// Installs it for all threads of this process.
pub(super) fn install() -> Result<(), KernelError> {
    let mut program = program();
    let program = sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(0),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program lives through the call, which copies it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        // Of a thread that cannot be brought to it.
        1.. => Err(KernelError::other(
            "seccomp",
            "this process",
            format!("thread {result} has a filter of its own"),
        )),
        _ => Err(KernelError::last("seccomp", "this process")),
    }
}

const fn statement(code: u32, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

/// Goes on so many instructions behind the next one.
const fn jump(code: u32, k: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: if_so,
        jf: if_not,
        k,
    }
}

const fn load(offset: usize) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset as u32)
}

/// The lower half of an argument; the machine is little-endian.
const fn argument(number: usize) -> sock_filter {
    load(offset_of!(seccomp_data, args) + number * size_of::<u64>())
}

const ALLOW: sock_filter = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
const KILL: sock_filter = statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
const EQUAL: u32 = BPF_JMP | BPF_JEQ | BPF_K;
const HAS_BITS: u32 = BPF_JMP | BPF_JSET | BPF_K;
const AT_LEAST: u32 = BPF_JMP | BPF_JGE | BPF_K;

fn program() -> Vec<sock_filter> {
    let number = |call: i64| call as u32;
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        jump(EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        KILL,
        load(offset_of!(seccomp_data, nr)),
        jump(AT_LEAST, X32, 0, 1),
        KILL,
    ];
    for call in ALLOWED {
        program.extend([jump(EQUAL, number(call), 0, 1), ALLOW]);
    }
    let (exec, anonymous) = (libc::PROT_EXEC as u32, libc::MAP_ANONYMOUS as u32);
    // Of these the kernel counts nothing as data. (The type `MAP_SHARED_VALIDATE` has the bit of `MAP_SHARED`.)
    let uncounted = (libc::MAP_SHARED | libc::MAP_GROWSDOWN) as u32;
    // Memory that counts, but no code, and of files what is only read. What is loaded is the number no more, but what follows does not need it.
    program.extend([
        jump(EQUAL, number(libc::SYS_mmap), 0, 10),
        argument(3),
        jump(HAS_BITS, uncounted, 7, 0),
        jump(HAS_BITS, anonymous, 0, 3),
        argument(2),
        jump(HAS_BITS, exec, 1, 0),
        ALLOW,
        argument(2),
        jump(EQUAL, libc::PROT_READ as u32, 0, 1),
        ALLOW,
        KILL,
    ]);
    program.extend([
        jump(EQUAL, number(libc::SYS_mprotect), 0, 4),
        argument(2),
        jump(HAS_BITS, exec, 1, 0),
        ALLOW,
        KILL,
    ]);
    // Whether a descriptor is one: Rust looks before it closes one, where it is built with assertions.
    program.extend([
        jump(EQUAL, number(libc::SYS_fcntl), 0, 4),
        argument(1),
        jump(EQUAL, libc::F_GETFD as u32, 0, 1),
        ALLOW,
        KILL,
    ]);
    // Its own end, so that it is told from what is forbidden: abort(3), with tkill(2) where the library is musl (of the first thread, whose
    // number is that of the process).
    program.extend([
        jump(EQUAL, number(libc::SYS_tgkill), 0, 6),
        argument(0),
        jump(EQUAL, std::process::id(), 0, 3),
        argument(2),
        jump(EQUAL, libc::SIGABRT as u32, 0, 1),
        ALLOW,
        KILL,
        jump(EQUAL, number(libc::SYS_tkill), 0, 6),
        argument(0),
        jump(EQUAL, std::process::id(), 0, 3),
        argument(1),
        jump(EQUAL, libc::SIGABRT as u32, 0, 1),
        ALLOW,
        KILL,
    ]);
    program.push(KILL);
    program
}

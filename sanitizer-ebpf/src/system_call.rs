//! The system calls in which the kernel reads or writes a plain buffer for the program, and nothing else
//! of the program's memory without the program's asking.
//!
//! Accesses in any other call are no evidence: futexes, robust lists, `rseq` and `clear_child_tid` are words
//! that the kernel and the program share by agreement.

/// Whether a call, by its number on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`), is such a one.
#[must_use]
#[inline(always)]
pub const fn moves_data(number: u64) -> bool {
    matches!(
        number,
        // read, write, stat, fstat, lstat, pread64, pwrite64, readv, writev, pipe
        0 | 1 | 4..=6 | 17..=20 | 22
        // connect to recvmsg, bind, getsockname to getsockopt, wait4, uname, getcwd, readlink
        | 42..=47 | 49 | 51..=55 | 61 | 63 | 79 | 89
        // gettimeofday, getrusage, times, getdents64, clock_gettime, epoll_wait, epoll_ctl, waitid
        | 96 | 98 | 100 | 217 | 228 | 232 | 233 | 247
        // newfstatat, readlinkat, epoll_pwait, accept4, pipe2, preadv, pwritev
        | 262 | 267 | 281 | 288 | 293 | 295 | 296
        // getrandom, preadv2, pwritev2, statx, epoll_pwait2
        | 318 | 327 | 328 | 332 | 441
    )
}

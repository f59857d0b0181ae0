//! The calls, by number, as the manual pages of section 2 describe them.

use crate::insn::AccessKind::{self, Read, Write};

/// How many bytes a buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Len {
    /// Always as many.
    Fixed(u32),
    /// As an argument says, a `size_t`.
    Size(usize),
    /// As many times this as an argument says, an `int` or an `unsigned`.
    Times(u32, usize),
    /// As the `socklen_t` says that an argument points to.
    Behind(usize),
}

/// Where a call's buffer is; numbers are those of arguments, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// An argument points to it.
    At(usize, Len),
    /// One argument points to an array of `struct iovec`, another one says how many there are.
    Vector(usize, usize),
    /// An argument points to a `struct msghdr`.
    Message(usize),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) name: &'static str,
    /// What the kernel does to the buffer.
    pub(super) kind: AccessKind,
    pub(super) buffer: Buffer,
}

const fn call(number: u64, name: &'static str, kind: AccessKind, buffer: Buffer) -> Call {
    Call {
        number,
        name,
        kind,
        buffer,
    }
}

const fn bytes(pointer: usize, len: usize) -> Buffer {
    Buffer::At(pointer, Len::Size(len))
}

const fn int(pointer: usize, len: usize) -> Buffer {
    Buffer::At(pointer, Len::Times(1, len))
}

const fn fixed(pointer: usize, len: u32) -> Buffer {
    Buffer::At(pointer, Len::Fixed(len))
}

const fn behind(pointer: usize, len: usize) -> Buffer {
    Buffer::At(pointer, Len::Behind(len))
}

/// Bytes of `struct stat`, `struct statx`, `struct new_utsname`, `struct rusage`, `siginfo_t`, `struct epoll_event`,
/// `struct timeval` and `struct timespec`, `struct tms`, and two descriptors, on x86-64.
const STAT: u32 = 144;
const STATX: u32 = 256;
const UTSNAME: u32 = 390;
const RUSAGE: u32 = 144;
const SIGINFO: u32 = 128;
const EPOLL_EVENT: u32 = 12;
const TIME: u32 = 16;
const TMS: u32 = 32;
const PAIR: u32 = 8;

/// What the calls that wait for events fill.
const EVENTS: Buffer = Buffer::At(1, Len::Times(EPOLL_EVENT, 2));

pub(super) const CALLS: &[Call] = &[
    call(0, "read", Write, bytes(1, 2)),
    call(1, "write", Read, bytes(1, 2)),
    call(4, "stat", Write, fixed(1, STAT)),
    call(5, "fstat", Write, fixed(1, STAT)),
    call(6, "lstat", Write, fixed(1, STAT)),
    call(17, "pread64", Write, bytes(1, 2)),
    call(18, "pwrite64", Read, bytes(1, 2)),
    call(19, "readv", Write, Buffer::Vector(1, 2)),
    call(20, "writev", Read, Buffer::Vector(1, 2)),
    call(22, "pipe", Write, fixed(0, PAIR)),
    call(42, "connect", Read, int(1, 2)),
    call(43, "accept", Write, behind(1, 2)),
    call(44, "sendto", Read, bytes(1, 2)),
    call(45, "recvfrom", Write, bytes(1, 2)),
    call(46, "sendmsg", Read, Buffer::Message(1)),
    call(47, "recvmsg", Write, Buffer::Message(1)),
    call(49, "bind", Read, int(1, 2)),
    call(51, "getsockname", Write, behind(1, 2)),
    call(52, "getpeername", Write, behind(1, 2)),
    call(53, "socketpair", Write, fixed(3, PAIR)),
    call(54, "setsockopt", Read, int(3, 4)),
    call(55, "getsockopt", Write, behind(3, 4)),
    call(61, "wait4", Write, fixed(1, 4)),
    call(63, "uname", Write, fixed(0, UTSNAME)),
    call(79, "getcwd", Write, bytes(0, 1)),
    call(89, "readlink", Write, int(1, 2)),
    call(96, "gettimeofday", Write, fixed(0, TIME)),
    call(98, "getrusage", Write, fixed(1, RUSAGE)),
    call(100, "times", Write, fixed(0, TMS)),
    call(217, "getdents64", Write, int(1, 2)),
    call(228, "clock_gettime", Write, fixed(1, TIME)),
    call(232, "epoll_wait", Write, EVENTS),
    call(233, "epoll_ctl", Read, fixed(3, EPOLL_EVENT)),
    call(247, "waitid", Write, fixed(2, SIGINFO)),
    call(262, "newfstatat", Write, fixed(2, STAT)),
    call(267, "readlinkat", Write, int(2, 3)),
    call(281, "epoll_pwait", Write, EVENTS),
    call(288, "accept4", Write, behind(1, 2)),
    call(293, "pipe2", Write, fixed(0, PAIR)),
    call(295, "preadv", Write, Buffer::Vector(1, 2)),
    call(296, "pwritev", Read, Buffer::Vector(1, 2)),
    call(318, "getrandom", Write, bytes(0, 1)),
    call(327, "preadv2", Write, Buffer::Vector(1, 2)),
    call(328, "pwritev2", Read, Buffer::Vector(1, 2)),
    call(332, "statx", Write, fixed(4, STATX)),
    call(441, "epoll_pwait2", Write, EVENTS),
];

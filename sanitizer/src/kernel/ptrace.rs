//! Holding threads: ptrace(2) in its seized form, and the waiting that goes with it.
//!
//! Two rules make it safe to die at any instant (invariants I1 and I3): nothing here interrupts
//! a thread, or detaches one that has not stopped by itself, and a stop that carries a signal of the target's own is looked at with
//! `WNOWAIT`, so that the kernel still holds the signal until the thread is continued with it.
//!
//! Who holds a thread is a thread, not a process: its end lets go whom it holds, and it hears of no others.

use std::mem::MaybeUninit;

pub use super::reaper::reaped;
use super::{KernelError, fault, reaper::while_reaping};
use crate::insn::Regs;

/// `PTRACE_EVENT_STOP` (`include/uapi/linux/ptrace.h`).
const EVENT_STOP: i32 = 128;
/// `si_code` of a SIGTRAP from perf (`include/uapi/asm-generic/siginfo.h`).
pub const TRAP_PERF: i32 = 6;
/// `si_code` of a signal that the kernel itself has sent.
pub const SI_KERNEL: i32 = 0x80;
/// `si_code` of a signal that tells of a descriptor.
pub const POLL_IN: i32 = 1;
/// `si_code` of a breakpoint instruction.
pub const TRAP_BRKPT: i32 = 1;

/// What a traced thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// About to receive a signal.
    Signal(i32),
    /// In a group stop (job control) caused by this signal.
    Group(i32),
    /// Has just called execve(2).
    Exec,
    /// Another ptrace event.
    Other(i32),
    /// Has ended.
    Exited,
}

/// `siginfo_t` as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignalInfo {
    /// `si_code`
    pub code: i32,
    /// `si_addr`, for signals that have one.
    pub address: u64,
    /// `si_perf_data`, for `TRAP_PERF`.
    pub perf_data: u64,
    /// `si_fd`, for `POLL_IN`.
    pub descriptor: i32,
}

/// The type of requests, in which C libraries differ.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

fn call(
    request: Request,
    name: &'static str,
    tid: u32,
    address: usize,
    data: usize,
) -> Result<i64, KernelError> {
    fault::before(name, || format!("thread {tid}"))?;
    // SAFETY: the callers pass pointers that are valid for what the request writes.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    if result < 0 {
        return Err(KernelError::last(name, format!("thread {tid}")));
    }
    Ok(result)
}

/// Becomes the tracer of a thread of process `pid` without stopping it. Only exec stops it by itself. Threads that
/// end while this waits for its turn are told of by [`reaped`].
///
/// # Errors
/// `EPERM` when it is traced already or not ours to trace, `ESRCH` when it is gone.
pub fn seize(pid: u32, tid: u32) -> Result<(), KernelError> {
    while_reaping(pid, || {
        call(
            libc::PTRACE_SEIZE,
            "ptrace(PTRACE_SEIZE)",
            tid,
            0,
            libc::PTRACE_O_TRACEEXEC as usize,
        )
    })?;
    Ok(())
}

/// Lets a stopped thread go on, with a signal or with none (0).
///
/// # Errors
/// `ESRCH` when the thread is gone or does not stand still.
pub fn resume(tid: u32, signal: i32) -> Result<(), KernelError> {
    call(
        libc::PTRACE_CONT,
        "ptrace(PTRACE_CONT)",
        tid,
        0,
        signal as usize,
    )?;
    Ok(())
}

/// Lets a thread that has stopped by itself go on, with a signal or with none (0), and does not trace it any more. It
/// receives the signal as after [`resume`]: the kernel has held it back at the stop, whether or not that was waited for.
///
/// # Errors
/// `ESRCH` when the thread is gone or does not stand still.
pub fn detach(tid: u32, signal: i32) -> Result<(), KernelError> {
    call(
        libc::PTRACE_DETACH,
        "ptrace(PTRACE_DETACH)",
        tid,
        0,
        signal as usize,
    )?;
    Ok(())
}

/// Leaves a thread in its group stop but listens for its end.
///
/// # Errors
/// `ESRCH` when the thread is gone.
pub fn listen(tid: u32) -> Result<(), KernelError> {
    call(libc::PTRACE_LISTEN, "ptrace(PTRACE_LISTEN)", tid, 0, 0)?;
    Ok(())
}

/// The registers of a stopped thread.
///
/// # Errors
/// `ESRCH` when the thread is gone.
pub fn registers(tid: u32) -> Result<Regs, KernelError> {
    let mut raw = MaybeUninit::<libc::user_regs_struct>::uninit();
    call(
        libc::PTRACE_GETREGS,
        "ptrace(PTRACE_GETREGS)",
        tid,
        0,
        raw.as_mut_ptr() as usize,
    )?;
    // SAFETY: the call succeeded and has filled the structure.
    let raw = unsafe { raw.assume_init() };
    Ok(Regs {
        r15: raw.r15,
        r14: raw.r14,
        r13: raw.r13,
        r12: raw.r12,
        rbp: raw.rbp,
        rbx: raw.rbx,
        r11: raw.r11,
        r10: raw.r10,
        r9: raw.r9,
        r8: raw.r8,
        rax: raw.rax,
        rcx: raw.rcx,
        rdx: raw.rdx,
        rsi: raw.rsi,
        rdi: raw.rdi,
        rip: raw.rip,
        eflags: raw.eflags,
        rsp: raw.rsp,
        fs_base: raw.fs_base,
        gs_base: raw.gs_base,
    })
}

/// The signal that a stopped thread is about to receive.
///
/// # Errors
/// `EINVAL` in a group stop, `ESRCH` when the thread is gone.
pub fn signal_info(tid: u32) -> Result<SignalInfo, KernelError> {
    let mut raw = MaybeUninit::<[u64; 16]>::zeroed();
    call(
        libc::PTRACE_GETSIGINFO,
        "ptrace(PTRACE_GETSIGINFO)",
        tid,
        0,
        raw.as_mut_ptr() as usize,
    )?;
    // SAFETY: the buffer is 128 bytes, the size of siginfo_t, zeroed before; any bits are valid.
    let raw = unsafe { raw.assume_init() };
    // si_code is the third int; si_addr stands at byte 16, si_perf_data and si_fd at byte 24.
    Ok(SignalInfo {
        code: raw[1] as u32 as i32,
        address: raw[2],
        perf_data: raw[3],
        descriptor: raw[3] as u32 as i32,
    })
}

/// The critical section of restartable sequences that a thread registered, as the user-mode
/// address and size of its `struct rseq`; `None` where it has none.
///
/// # Errors
/// `EIO` on kernels without it, `ESRCH` when the thread is gone.
pub fn rseq_area(tid: u32) -> Result<Option<(u64, u32)>, KernelError> {
    /// `PTRACE_GET_RSEQ_CONFIGURATION` (`include/uapi/linux/ptrace.h`).
    const GET_RSEQ_CONFIGURATION: Request = 0x420f;
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        abi_pointer: u64,
        abi_size: u32,
        signature: u32,
        flags: u32,
        pad: u32,
    }
    let mut raw = Configuration::default();
    call(
        GET_RSEQ_CONFIGURATION,
        "ptrace(PTRACE_GET_RSEQ_CONFIGURATION)",
        tid,
        size_of::<Configuration>(),
        (&raw mut raw) as usize,
    )?;
    Ok((raw.abi_pointer != 0).then_some((raw.abi_pointer, raw.abi_size)))
}

/// The next thread of those that the calling one holds which has stopped or ended, without taking note of it: until it is resumed or
/// [`take`]n, the same answer comes again. `None` when no thread has anything to tell.
///
/// # Errors
/// `ECHILD` when nothing is traced any more.
pub fn peek() -> Result<Option<(u32, Stop)>, KernelError> {
    wait(libc::P_ALL, 0, libc::WNOWAIT | libc::WNOHANG)
}

/// What [`peek`] would tell of this thread; `None` when that has nothing to tell.
///
/// # Errors
/// `ECHILD` when the thread is not traced any more.
pub fn peek_at(tid: u32) -> Result<Option<Stop>, KernelError> {
    let news = wait(libc::P_PID, tid, libc::WNOWAIT | libc::WNOHANG)?;
    Ok(news.map(|(_, stop)| stop))
}

/// Whether [`peek`] would tell of this thread.
///
/// # Errors
/// `ECHILD` when the thread is not traced any more.
pub fn has_news(tid: u32) -> Result<bool, KernelError> {
    Ok(peek_at(tid)?.is_some())
}

/// Takes note of a thread's stop or end, and tells which it was: it is not told of again. It may
/// be another than [`peek`] saw, when SIGKILL or another thread's exec came between.
///
/// # Errors
/// `ECHILD` when the thread is not traced any more.
pub fn take(tid: u32) -> Result<Option<(u32, Stop)>, KernelError> {
    wait(libc::P_PID, tid, libc::WNOHANG)
}

fn wait(kind: libc::idtype_t, id: u32, flags: i32) -> Result<Option<(u32, Stop)>, KernelError> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    fault::before("waitid", || format!("thread {id}"))?;
    loop {
        // SAFETY: `info` is writable memory of the right type.
        let result = unsafe {
            libc::waitid(
                kind,
                id,
                info.as_mut_ptr(),
                libc::WSTOPPED | libc::WEXITED | libc::__WALL | libc::__WNOTHREAD | flags,
            )
        };
        if result == 0 {
            break;
        }
        let error = KernelError::last("waitid", format!("thread {id}"));
        if error.source.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeroed before and filled by the call; any bits are valid.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid fills these two fields, or leaves the zeros when there was nothing.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    let stop = match info.si_code {
        libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED => Stop::Exited,
        _ => match (status >> 8, status & 0xff) {
            (0, signal) => Stop::Signal(signal),
            (EVENT_STOP, signal) if signal != libc::SIGTRAP => Stop::Group(signal),
            (libc::PTRACE_EVENT_EXEC, _) => Stop::Exec,
            (event, _) => Stop::Other(event),
        },
    };
    Ok(Some((pid.cast_unsigned(), stop)))
}

//! A child of the calling process: what it has come to, and its end.

use super::{Urgency, hurry};
use crate::kernel::{KernelError, fault};

/// What a child process has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// Neither of the others.
    Running,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has ended, by itself with this code, or with 128 + n by signal n.
    Ended(i32),
}

/// What a child of the calling process has come to, without waiting. If it has ended, the calling thread is no longer [urgent](Urgency): the kernel forgets such a child's files
/// in `/proc` for it, and waits for whoever is at one of them by asking again and again (`shrink_dcache_parent` in `fs/dcache.c`). Of two real-time threads on one processor the one would wait so for ever for
/// the other, which it keeps from running (seen on Linux 6.18).
///
/// # Errors
/// `ECHILD` for what is no child, or was waited for before.
pub fn child_state(pid: u32) -> Result<ChildState, KernelError> {
    let failed = || KernelError::last("waitpid", format!("process {pid}"));
    fault::before("waitpid", || format!("process {pid}"))?;
    // SAFETY: all of its members are integers, for which 0 is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is writable.
    if unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, options) } < 0 {
        return Err(failed());
    }
    // SAFETY: waitid(2) has filled it in, or left it zeroed where nothing has happened.
    if unsafe { info.si_pid() } == 0 {
        return Ok(ChildState::Running);
    }
    if info.si_code == libc::CLD_STOPPED {
        return Ok(ChildState::Stopped);
    }
    hurry(Urgency::Usual);
    let mut status = 0;
    // SAFETY: `status` is writable.
    if unsafe { libc::waitpid(pid.cast_signed(), &raw mut status, libc::WNOHANG) } <= 0 {
        return Err(failed());
    }
    Ok(ChildState::Ended(if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        128 + libc::WTERMSIG(status)
    }))
}

/// Kills a child of the calling process that was not waited for yet.
pub fn kill_child(pid: u32) {
    // SAFETY: kill touches no memory, and the id is the child's until it is waited for.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}

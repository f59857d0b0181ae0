//! What this process was started with that the program which `run` starts is to find as well: signals that are ignored or blocked,
//! and the environment. All of it has changed when `main` begins: Rust ignores SIGPIPE, posix_spawn(3) ignores the C library's two
//! signals and lets SIGPIPE end the process, and the dynamic loader drops variables where capabilities come from the file
//! (ld.so(8), "Secure-execution mode"). So it is looked at before that.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

use super::service;

/// Signals of Linux on x86-64: 1 to 64.
const SIGNALS: c_int = 64;
/// Bytes of a set of them, in the kernel's form.
const SET_SIZE: usize = size_of::<u64>();

/// A bit for each signal, from bit 0 for signal 1.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// The last argument: the environment's strings follow it.
static LAST_ARGUMENT: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// rt_sigaction(2)'s structure, which is not the C library's: that one refuses two signals.
#[repr(C)]
#[derive(Clone, Copy)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

impl Action {
    const fn of(handler: usize) -> Self {
        Self {
            handler,
            flags: 0,
            restorer: 0,
            mask: 0,
        }
    }
}

/// Called by the C library before `main`, with `main`'s arguments (glibc's `call_init`).
#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn(c_int, *const *mut c_char) = look;

extern "C" fn look(count: c_int, arguments: *const *mut c_char) {
    let mut ignored = 0;
    for signal in 1..=SIGNALS {
        let mut action = Action::of(libc::SIG_DFL);
        // SAFETY: the kernel writes a structure of this form, and reads none. Nothing is needed that `main` sets up.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                ptr::null::<Action>(),
                &raw mut action,
                SET_SIZE,
            )
        };
        if result == 0 && action.handler == libc::SIG_IGN {
            ignored |= bit(signal);
        }
    }
    IGNORED.store(ignored, Relaxed);
    let mut blocked = 0u64;
    // SAFETY: the kernel writes as many bytes as are said, and reads none.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            ptr::null::<u64>(),
            &raw mut blocked,
            SET_SIZE,
        );
    }
    BLOCKED.store(blocked, Relaxed);
    let last = usize::try_from(count).ok().and_then(|n| n.checked_sub(1));
    if let Some(last) = last.filter(|_| cfg!(target_env = "gnu") && !arguments.is_null()) {
        // SAFETY: there are `count` arguments.
        LAST_ARGUMENT.store(unsafe { *arguments.add(last) }, Relaxed);
    }
}

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// A bit for each signal, from bit 0 for signal 1.
    ignored: u64,
    blocked: u64,
    /// `NAME=value` each, where that is not what this process has now.
    environment: Option<Vec<Vec<u8>>>,
    /// This process: what names it in the environment means the program.
    pid: u32,
}

impl Origin {
    /// Of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            ignored: IGNORED.load(Relaxed),
            blocked: BLOCKED.load(Relaxed),
            environment: environment_at_start(),
            pid: std::process::id(),
        }
    }

    /// Executes a program, looked for in `PATH`, that finds it like this; SIGTRAP is ignored as well (invariant I1). Returns
    /// only when that has failed.
    #[must_use]
    pub fn execute(&self, command: &[CString]) -> nix::errno::Errno {
        let Some(program) = command.first() else {
            return nix::errno::Errno::EINVAL;
        };
        let environment = self.environment_of(std::process::id()).map(|strings| {
            let strings = strings.into_iter().map(CString::new);
            strings.filter_map(Result::ok).collect::<Vec<_>>()
        });
        self.set_signals();
        let result = match environment {
            Some(environment) => nix::unistd::execvpe(program, command, &environment),
            None => nix::unistd::execvp(program, command),
        };
        match result {
            Err(error) => error,
            Ok(never) => match never {},
        }
    }

    /// What the program with this number is to find, where that is not what this process has.
    fn environment_of(&self, program: u32) -> Option<Vec<Vec<u8>>> {
        let present;
        let strings = match &self.environment {
            Some(strings) => strings,
            None => {
                present = service::environment();
                &present
            }
        };
        service::renamed(strings, self.pid, program).or_else(|| self.environment.clone())
    }

    /// From here on this process must not do anything but execute a program.
    fn set_signals(&self) {
        for signal in 1..=SIGNALS {
            let is_ignored = self.ignored & bit(signal) != 0 || signal == libc::SIGTRAP;
            let action = Action::of(if is_ignored {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            });
            // SAFETY: the kernel reads a structure of this form, which installs no handler, and writes none. It refuses SIGKILL and SIGSTOP.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    &raw const action,
                    ptr::null_mut::<Action>(),
                    SET_SIZE,
                );
            }
        }
        // SAFETY: the kernel reads as many bytes as are said, and writes none.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                &raw const self.blocked,
                ptr::null_mut::<u64>(),
                SET_SIZE,
            );
        }
    }
}

/// The environment as the kernel has laid it, where the dynamic loader has dropped some of it: the strings between the last argument and
/// the name of the executed file (Linux, `fs/exec.c`: `do_execveat_common` copies them in this order, downwards).
fn environment_at_start() -> Option<Vec<Vec<u8>>> {
    /// What the kernel lets arguments and environment be at most, bytes.
    const MOST: usize = 6 << 20;
    // SAFETY: getauxval touches no memory of ours.
    let (is_secure, name) = unsafe {
        (
            libc::getauxval(libc::AT_SECURE),
            libc::getauxval(libc::AT_EXECFN),
        )
    };
    let last = LAST_ARGUMENT.load(Relaxed);
    if is_secure == 0 || last.is_null() {
        return None;
    }
    // SAFETY: arguments are strings that live as long as the process, and nobody changes them.
    let argument = unsafe { CStr::from_ptr(last) };
    let begin = last.addr() + argument.count_bytes() + 1;
    let length = usize::try_from(name).ok()?.checked_sub(begin)?;
    if length > MOST {
        return None;
    }
    // SAFETY: from the last argument to the file's name all is the strings of the environment, which stay mapped.
    let bytes = unsafe {
        std::slice::from_raw_parts(last.cast::<u8>().with_addr(begin).cast_const(), length)
    };
    let strings = bytes.split(|&byte| byte == 0);
    let strings = strings.filter(|string| !string.is_empty());
    Some(strings.map(<[u8]>::to_vec).collect())
}

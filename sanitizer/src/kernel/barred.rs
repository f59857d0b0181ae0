//! System calls that a filter (seccomp(2)) answers by the end of the process: who makes one cannot tell of it any more. So a child makes each
//! of them first, with arguments that nothing comes of.

use std::fs;

/// What gwp-race cannot do without or would not survive, with arguments that are refused before anything else is looked at.
const CALLS: [(&str, libc::c_long, [usize; 5]); 3] = [
    // Flags that do not exist.
    (
        "perf_event_open",
        libc::SYS_perf_event_open,
        [0, 0, 0, 0, usize::MAX],
    ),
    // A process that does not exist.
    (
        "ptrace",
        libc::SYS_ptrace,
        [libc::PTRACE_SEIZE as usize, 0, 0, 0, 0],
    ),
    // A command that does not exist.
    ("bpf", libc::SYS_bpf, [u32::MAX as usize, 0, 0, 0, 0]),
];

/// The names of those that would end this process, which must have one thread.
#[must_use]
pub fn deadly_calls() -> Vec<&'static str> {
    if !is_filtered() {
        return Vec::new();
    }
    let deadly = CALLS
        .iter()
        .filter(|(_, number, arguments)| is_deadly(*number, arguments));
    deadly.map(|(name, ..)| *name).collect()
}

fn is_filtered() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    lines.any(|line| {
        line.strip_prefix("Seccomp:")
            .is_some_and(|mode| mode.trim() != "0")
    })
}

fn is_deadly(number: libc::c_long, [a, b, c, d, e]: &[usize; 5]) -> bool {
    let mut status = 0;
    // SAFETY: the child makes only calls that signal-safety(7) allows, and one that refuses its arguments; `status` is writable.
    unsafe {
        match libc::fork() {
            ..0 => return false,
            0 => {
                // It leaves no core.
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                libc::syscall(number, *a, *b, *c, *d, *e);
                libc::_exit(0);
            }
            child => {
                while libc::waitpid(child, &raw mut status, 0) < 0 {
                    if *libc::__errno_location() != libc::EINTR {
                        return false;
                    }
                }
            }
        }
    }
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that none of them does anything where nothing is filtered.
    #[test]
    fn nothing_comes_of_them() {
        for (name, number, [a, b, c, d, e]) in CALLS {
            // SAFETY: the arguments are refused.
            let result = unsafe { libc::syscall(number, a, b, c, d, e) };
            assert_eq!(result, -1, "{name}");
            assert!(!is_deadly(number, &[a, b, c, d, e]), "{name}");
        }
    }
}

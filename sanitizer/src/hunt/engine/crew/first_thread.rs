//! Who receives a signal of the program's own that waits for the whole process while its threads stand.
//!
//! SIGCONT has every traced thread stop (`ptrace_trap_notify` in `kernel/signal.c`) before it receives what was sent a moment
//! before: timeout(1) and systemd send SIGTERM and SIGCONT at once. Whoever goes on first receives it then. Without a tracer that is
//! the first thread, unless it blocks the signal (`complete_signal`), and servers that wait for connections there rely on it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::hunt::engine::as_pid;
use crate::hunt::engine::rig::release;
use crate::kernel::ptrace;
use crate::kernel::ptrace::Stop;
use crate::tracee::status::Status;

/// How long another thread stands for the first one, at most.
const PATIENCE: Duration = Duration::from_millis(3);

/// How often it is looked how far the first one is.
const STEP: Duration = Duration::from_micros(50);

/// Whether the first thread is about to run and would receive a signal that waits for the process. `status`: its own.
fn is_to_receive(status: &Status) -> bool {
    let waits = status.process_pending.0 & !status.blocked.0;
    waits != 0 && matches!(status.state, 'R' | 't')
}

/// Before a thread goes on that stands for no signal: lets the first one of its process go first, if that is about to receive one.
pub fn let_first_receive(pid: u32, tid: u32) {
    if tid == pid {
        return;
    }
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        let Ok(status) = Status::of_process(as_pid(pid)) else {
            return;
        };
        if !is_to_receive(&status) {
            return;
        }
        match ptrace::peek_at(pid) {
            // It stands for the same reason.
            Ok(Some(Stop::Other(_))) => release(pid, 0),
            // It receives something.
            Ok(Some(_)) => return,
            // It has not come so far yet; or it is let alone, and only has to get a processor.
            _ if status.state == 'R' => {}
            // It is held.
            _ => return,
        }
        sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, pending: &str, blocked: &str) -> Status {
        let text = std::fs::read_to_string("/proc/self/status").expect("status");
        let lines = text.lines().map(|line| match line.split(':').next() {
            Some("State") => format!("State:\t{state}"),
            Some("ShdPnd") => format!("ShdPnd:\t{pending}"),
            Some("SigBlk") => format!("SigBlk:\t{blocked}"),
            _ => line.to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        Status::parse(as_pid(1), text.as_bytes()).expect("a status")
    }

    /// Check that others wait only for a first thread that is on its way to a signal.
    #[test]
    fn who_is_waited_for() {
        const TERM: &str = "0000000000004000";
        const NONE: &str = "0000000000000000";
        for (state, pending, blocked, expected) in [
            ("R (running)", TERM, NONE, true),
            ("t (tracing stop)", TERM, NONE, true),
            ("S (sleeping)", TERM, NONE, false),
            ("Z (zombie)", TERM, NONE, false),
            ("R (running)", TERM, TERM, false),
            ("R (running)", NONE, NONE, false),
        ] {
            let status = status(state, pending, blocked);
            assert_eq!(
                is_to_receive(&status),
                expected,
                "{state} {pending} {blocked}"
            );
        }
    }
}

//! The watchdog: lets the target go when its tracer hangs (invariant I4).
//!
//! The process that the daemon starts for a target loads the gates and splits: the child becomes
//! the tracer, the parent watches over it. They share the gates' control block. Nobody but the
//! kernel can release the threads that a tracer holds, and the kernel does so when the tracer
//! ends: killing it is the release, and is harmless (invariant I1).
//!
//! A stopped tracer is noticed at once, since its parent is told. A thread that stands still is
//! noticed by the gate's record of the time; the watchdog sleeps until that is due, and has nothing
//! to do while nobody stands.
//!
//! Should somebody stop the watchdog and then the tracer, the kernel ends the tracer by a timer ([`crate::kernel::dead_man`]).

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::atomic::Ordering::SeqCst,
    time::Duration,
};

use nix::unistd::Pid;

use crate::{
    kernel::{
        KernelError,
        gates::Gates,
        process::{self, ChildState, monotonic_ns, nanos},
    },
    tracee::threads::Stat,
};

/// The exit code that tells the daemon of a release.
pub const RELEASED: i32 = 75;

/// The share of the deadline between the last two looks. A thread that a gate has stopped may wait
/// for a processor before it comes to its halt, which is not of our making: it is held by us when
/// two looks in turn find it standing.
const AGAIN: u32 = 4;
/// How often the tracer's heartbeat is looked at while nobody stands still.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A tracer that is late by so many deadlines counts as stuck, while no thread is known to stand
/// still: what stands then waits for a signal of its own to be passed on.
const LATE: u32 = 10;
/// The same as a time, where the deadlines are long.
const LATEST: Duration = Duration::from_secs(2);

/// How long after the look that it has announced a tracer is ended by the kernel, should nobody else be there to do it: later than the watchdog
/// would.
#[must_use]
pub fn at_the_latest(deadline: Duration) -> Duration {
    HEARTBEAT + (deadline * LATE).min(LATEST).max(deadline)
}

/// Watches over the tracer until it ends, and kills it when it holds a thread for longer than
/// `deadline`. The exit code that says how it ended.
///
/// # Errors
/// Fails where the waiting does.
pub fn guard(
    tracer: u32,
    gates: &mut Gates,
    news: &OwnedFd,
    deadline: Duration,
) -> Result<i32, KernelError> {
    // The time whose thread is gone: its stop will never be.
    let mut void = 0;
    // The time whose thread was seen to stand at the last look.
    let mut standing = 0;
    let again = deadline / AGAIN;
    loop {
        match process::child_state(tracer)? {
            ChildState::Running => {}
            ChildState::Ended(code) => return Ok(code),
            ChildState::Stopped => return release(tracer, gates, news),
        }
        let since = gates.control().watchdog.standing_since_ns.load(SeqCst);
        if since == 0 || since == void {
            if is_stuck(gates, deadline) {
                return release(tracer, gates, news);
            }
            process::wait_readable([news.as_fd(), gates.standing_fd()], Some(HEARTBEAT))?;
            gates.drain_standing();
            process::drain(news.as_fd());
            continue;
        }
        let due = since.saturating_add(nanos(deadline.saturating_sub(again)));
        let now = monotonic_ns();
        let wait = if now < due {
            Duration::from_nanos(due - now)
        } else {
            match owner_state(gates) {
                Some('t') if standing == since => return release(tracer, gates, news),
                // Nobody stands, and whoever was to has not come to it.
                Some(_) if is_stuck(gates, deadline) => return release(tracer, gates, news),
                Some(state) => {
                    standing = if state == 't' { since } else { 0 };
                    again
                }
                None => {
                    void = since;
                    continue;
                }
            }
        };
        process::wait_readable([news.as_fd()], Some(wait))?;
        process::drain(news.as_fd());
    }
}

/// Closes the stall in hand, so that no later hit counts (invariant I7), and kills the tracer.
fn release(tracer: u32, gates: &Gates, news: &OwnedFd) -> Result<i32, KernelError> {
    gates.phase().close();
    process::kill_child(tracer);
    loop {
        if matches!(process::child_state(tracer)?, ChildState::Ended(_)) {
            return Ok(RELEASED);
        }
        process::wait_readable([news.as_fd()], None)?;
        process::drain(news.as_fd());
    }
}

/// The state of the thread that the gates have stopped; `None` when it is gone.
fn owner_state(gates: &Gates) -> Option<char> {
    let owner = gates.control().claim.owner.load(SeqCst);
    let tid = Pid::from_raw(i32::try_from(owner).ok()?);
    Stat::read(tid, tid).ok().map(|stat| stat.state)
}

/// The tracer has not looked at its tracees for long, though it said that it would.
fn is_stuck(gates: &Gates, deadline: Duration) -> bool {
    let next = gates.control().watchdog.heartbeat_ns.load(SeqCst);
    next != 0 && monotonic_ns().saturating_sub(next) > nanos(deadline * LATE)
}

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

use std::{os::fd::BorrowedFd, sync::atomic::Ordering::SeqCst, time::Duration};

use nix::unistd::Pid;

use super::bounds;
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

/// Watches over the tracer until it ends, and kills it when a slot of it, each with its gates, holds a thread for longer than
/// `deadline`: that lets all go. The exit code that says how it ended. `news`: readable when the tracer has some.
///
/// # Errors
/// Fails where the waiting does.
pub fn guard(
    tracer: u32,
    gates: &mut [Gates],
    news: BorrowedFd<'_>,
    deadline: Duration,
) -> Result<i32, KernelError> {
    let mut slots: Vec<Slot> = gates.iter_mut().map(Slot::of).collect();
    loop {
        match process::child_state(tracer)? {
            ChildState::Running => {}
            ChildState::Ended(code) => return Ok(code),
            ChildState::Stopped => return release(tracer, &slots, news),
        }
        let mut wait = HEARTBEAT;
        for slot in &mut slots {
            match slot.look(deadline) {
                Seen::Stuck => return release(tracer, &slots, news),
                Seen::Due(after) => wait = wait.min(after),
            }
        }
        wait_for_news(&slots, news, wait)?;
        process::drain(news);
        for slot in &mut slots {
            slot.gates.drain_standing();
        }
    }
}

/// A slot of the tracer, as the watchdog sees it.
struct Slot<'a> {
    gates: &'a mut Gates,
    /// The time whose thread is gone: its stop will never be.
    void: u64,
    /// The time whose thread was seen to stand at the last look.
    standing: u64,
    /// Nobody was known to stand at the last look: whoever does from then on is told of.
    is_idle: bool,
}

/// What a look has shown.
enum Seen {
    /// It is to be looked at again after this time, or when its gates tell of somebody who stands.
    Due(Duration),
    /// Somebody stands for too long.
    Stuck,
}

impl<'a> Slot<'a> {
    const fn of(gates: &'a mut Gates) -> Self {
        Self {
            gates,
            void: 0,
            standing: 0,
            is_idle: true,
        }
    }

    fn look(&mut self, deadline: Duration) -> Seen {
        let again = deadline / AGAIN;
        loop {
            let since = self.gates.control().watchdog.standing_since_ns.load(SeqCst);
            self.is_idle = since == 0 || since == self.void;
            if self.is_idle {
                return match is_stuck(self.gates, deadline) {
                    true => Seen::Stuck,
                    false => Seen::Due(HEARTBEAT),
                };
            }
            let due = since.saturating_add(nanos(deadline.saturating_sub(again)));
            let now = monotonic_ns();
            if now < due {
                return Seen::Due(Duration::from_nanos(due - now));
            }
            match owner_state(self.gates) {
                Some('t') if self.standing == since => return Seen::Stuck,
                // Nobody stands, and whoever was to has not come to it.
                Some(_) if is_stuck(self.gates, deadline) => return Seen::Stuck,
                Some(state) => {
                    self.standing = if state == 't' { since } else { 0 };
                    return Seen::Due(again);
                }
                None => self.void = since,
            }
        }
    }
}

/// Waits until the tracer has news, a gate stops a thread where none was known to stand, or the time is over.
fn wait_for_news(
    slots: &[Slot<'_>],
    news: BorrowedFd<'_>,
    limit: Duration,
) -> Result<(), KernelError> {
    let mut fds = [news; 1 + *bounds::SLOTS.end() as usize];
    let idle = slots.iter().filter(|slot| slot.is_idle);
    for (fd, slot) in fds.iter_mut().skip(1).zip(idle) {
        *fd = slot.gates.standing_fd();
    }
    process::wait_readable(fds, Some(limit)).map(drop)
}

/// Closes the stalls in hand, so that no later hit counts (invariant I7), and kills the tracer.
fn release(tracer: u32, slots: &[Slot<'_>], news: BorrowedFd<'_>) -> Result<i32, KernelError> {
    for slot in slots {
        slot.gates.phase().close();
    }
    process::kill_child(tracer);
    loop {
        if matches!(process::child_state(tracer)?, ChildState::Ended(_)) {
            return Ok(RELEASED);
        }
        process::wait_readable([news], None)?;
        process::drain(news);
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

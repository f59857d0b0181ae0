//! Tracers that hang, as one does that is stopped, or of which a debugger has taken hold.

use nix::{
    errno::Errno,
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::children::{named, status_field};

/// How a tracer is made to hang.
#[derive(Clone, Copy, Debug)]
pub enum Hang {
    /// By SIGSTOP, of which its parent is told: all its threads stand.
    Stopped,
    /// By a debugger, of which its parent is not told: only the deadline helps. The one thread alone stands.
    Held,
}

impl Hang {
    /// Makes the tracer hang by its thread that holds the target.
    ///
    /// # Errors
    /// Fails where there is none any more, because the watchdog of a busy machine was first.
    pub fn begin(self, tracer: Pid) -> nix::Result<()> {
        match self {
            Self::Stopped => kill(tracer, Signal::SIGSTOP),
            Self::Held => {
                ptrace::seize(tracer, ptrace::Options::empty())?;
                ptrace::interrupt(tracer)?;
                match waitpid(tracer, Some(WaitPidFlag::__WALL))? {
                    WaitStatus::Exited(..) | WaitStatus::Signaled(..) => Err(Errno::ESRCH),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Whether the tracer's end has come; a debugger has to take note of it first.
    #[must_use]
    pub fn has_ended(self, tracer: Pid) -> bool {
        if matches!(self, Self::Held) {
            let options = WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
            let _ = waitpid(tracer, Some(options));
        }
        status_field(tracer, "State").is_none()
    }
}

/// The thread of the tracer below a gwp-race that holds a target.
#[must_use]
pub fn holder(gwp_race: Pid, target: Pid) -> Option<Pid> {
    let tracer = named(gwp_race, "gwp-race-tracer")?;
    let holder = Pid::from_raw(status_field(target, "TracerPid")?.parse().ok()?);
    let is_of_it = status_field(holder, "Tgid") == Some(tracer.to_string());
    is_of_it.then_some(holder)
}

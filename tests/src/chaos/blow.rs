//! How gwp-race dies: the daemon, the tracer or the watchdog alone, at once or after it was stopped for a while.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    random::Random,
    target::{standing_threads, waited},
};
use crate::children::{descendants, status_field};

/// The shortest time for which a process is stopped before it is killed, and how often that may
/// be doubled: 5 s at most.
const SHORTEST: Duration = Duration::from_micros(1_220);
const DOUBLINGS: u64 = 12;
/// How many tracers may be gone before they are stopped.
const MEETINGS: usize = 3;
/// The names of tracers and watchdogs in `/proc/PID/status`.
const TRACER: &str = "gwp-race-tracer";
const WATCHDOG: &str = "gwp-race-guard";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// SIGKILL to the daemon.
    Daemon,
    /// SIGKILL to the tracer, and when it is gone to the daemon.
    Tracer,
    /// SIGKILL to the watchdog, and when it and the tracer are gone to the daemon.
    Watchdog,
    /// SIGSTOP to the daemon, and SIGKILL up to 5 s later.
    StoppedDaemon,
    /// SIGSTOP to the tracer, and SIGKILL up to 5 s later, unless the watchdog has done it before;
    /// then SIGKILL to the daemon.
    StoppedTracer,
}

impl Blow {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Daemon,
        Self::Tracer,
        Self::Watchdog,
        Self::StoppedDaemon,
        Self::StoppedTracer,
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Tracer => "tracer",
            Self::Watchdog => "watchdog",
            Self::StoppedDaemon => "daemon, after SIGSTOP",
            Self::StoppedTracer => "tracer, after SIGSTOP",
        }
    }

    /// Deals it; how long a thread of the target was seen to stand still meanwhile.
    ///
    /// # Errors
    /// Fails when it cannot be dealt.
    pub fn deal(self, daemon: Pid, target: Option<Pid>, random: &mut Random) -> Result<Duration> {
        let victim = self.meet(daemon)?;
        // Neither the tracer nor its watchdog outlives the other, or the daemon.
        let mut doomed = descendants(daemon);
        doomed.retain(|pid| {
            status_field(*pid, "Name").is_some_and(|name| name == TRACER || name == WATCHDOG)
        });
        doomed.push(victim);
        let mut stood = Duration::ZERO;
        if self.stops_first() {
            stood = watch_standing(target, victim, random.spread(SHORTEST, DOUBLINGS));
        }
        // Stopped, a tracer has perhaps been killed by its watchdog.
        let _ = kill(victim, Signal::SIGKILL);
        if !waited(|| Ok(!doomed.iter().any(|pid| is_alive(*pid))))? {
            bail!("one of the processes {doomed:?} does not die");
        }
        // Without its tracer it may end by itself, or start another one soon.
        let _ = kill(daemon, Signal::SIGKILL);
        Ok(stood)
    }

    const fn stops_first(self) -> bool {
        matches!(self, Self::StoppedDaemon | Self::StoppedTracer)
    }

    /// The process that it is dealt to, stopped where that comes first: the daemon where the watchdog kills
    /// tracers faster than they can be met, as it does on a busy machine, or lets the target alone for long.
    fn meet(self, daemon: Pid) -> Result<Pid> {
        for _ in 0..MEETINGS {
            let helper = match self {
                Self::Daemon | Self::StoppedDaemon => None,
                Self::Tracer | Self::StoppedTracer => helper(daemon, TRACER)?,
                Self::Watchdog => helper(daemon, WATCHDOG)?,
            };
            let Some(helper) = helper else { break };
            if !self.stops_first() {
                return Ok(helper);
            }
            match kill(helper, Signal::SIGSTOP) {
                Ok(()) => return Ok(helper),
                Err(Errno::ESRCH) => {}
                Err(error) => return Err(error).context("stopping gwp-race"),
            }
        }
        if self.stops_first() {
            kill(daemon, Signal::SIGSTOP).context("stopping gwp-race")?;
        }
        Ok(daemon)
    }
}

/// Whether a process is there and no zombie: what it holds is not released before.
pub fn is_alive(pid: Pid) -> bool {
    status_field(pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// The living process of this name that a daemon has started, or starts soon.
fn helper(daemon: Pid, name: &str) -> Result<Option<Pid>> {
    let mut helper = None;
    waited(|| {
        let named = |pid: &Pid| status_field(*pid, "Name").as_deref() == Some(name);
        let mut helpers = descendants(daemon).into_iter();
        helper = helpers.find(|pid| named(pid) && is_alive(*pid));
        Ok(helper.is_some())
    })?;
    Ok(helper)
}

/// Waits, as long as the stopped process lives, and finds out for how long one and the same thread
/// of the target stood still from the beginning on.
fn watch_standing(target: Option<Pid>, stopped: Pid, time: Duration) -> Duration {
    const LOOK: Duration = Duration::from_millis(1);
    let start = Instant::now();
    let mut standing: Option<HashSet<i32>> = None;
    let mut stood = Duration::ZERO;
    while start.elapsed() < time && is_alive(stopped) {
        std::thread::sleep(LOOK.min(time.saturating_sub(start.elapsed())));
        let Some(target) = target else { continue };
        if standing.as_ref().is_some_and(HashSet::is_empty) {
            continue;
        }
        let now = standing_threads(target);
        let still = match standing {
            Some(before) => &before & &now,
            None => now,
        };
        if !still.is_empty() {
            stood = start.elapsed();
        }
        standing = Some(still);
    }
    stood
}

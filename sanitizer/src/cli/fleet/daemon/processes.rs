//! Processes as they come and go, and what CPU time they use.

use std::time::Duration;

use anyhow::Context as _;
use tracing::info;

use super::{Daemon, lease::Why, roster::file_of, who::Who};
use crate::{
    cli::{
        descendants::start_ticks,
        fleet::{
            discovery::Change,
            survey::{Found, is_gone},
        },
    },
    fleet::schedule::{BuildId, Event, ProcessId},
    kernel::{discovery::Status, process::CpuClock},
};

impl Daemon {
    /// Takes in who has come and gone.
    pub(super) fn take_changes(&mut self) -> anyhow::Result<()> {
        let changes = self.discovery.turn(std::time::Instant::now());
        for change in changes.context("cannot look through /proc")? {
            self.is_urgent = true;
            match change {
                Change::Began(found) => self.begin_process(&found),
                Change::Ended { pid, status } => self.end_process(pid, status),
            }
        }
        Ok(())
    }

    /// The same, and what those use who are due.
    pub(super) fn look_at_processes(&mut self) -> anyhow::Result<()> {
        self.take_changes()?;
        let now = self.now();
        let due: Vec<_> = self
            .roster
            .due(now)
            .map(|known| (known.process, known.who.pid))
            .collect();
        for (process, pid) in due {
            self.look_at_cpu(process, pid);
        }
        self.roster.keep_ignored(|pid, start| !is_gone(pid, start));
        Ok(())
    }

    pub(super) fn look_at_cpu(&mut self, process: ProcessId, pid: u32) {
        // One that has ended may not have been told of yet.
        if let Some(ns) = CpuClock::of(pid).told_ns() {
            let cpu = Duration::from_nanos(ns);
            self.scheduler
                .take(self.now(), Event::Used { process, cpu });
        }
    }

    fn begin_process(&mut self, found: &Found) {
        let now = self.now();
        let pid = found.pid;
        // It had ended, which will be told.
        let Some(program) = &found.program else {
            return;
        };
        let known = self.roster.begin(Who::of(found), file_of(program), now);
        let Some((process, build)) = known.map(|known| (known.process, known.build)) else {
            return;
        };
        let cpu = Duration::from_nanos(CpuClock::of(pid).ns());
        let event = Event::Began {
            process,
            build,
            cpu,
        };
        self.scheduler.take(now, event);
        for build in self.roster.forget_builds(|build| self.trials.needs(build)) {
            self.trials.forget(build);
            self.scheduler.take(now, Event::Forgotten { build });
        }
    }

    fn end_process(&mut self, pid: u32, status: Option<Status>) {
        let Some(known) = self.roster.get(pid) else {
            return;
        };
        let process = known.process;
        let lives = start_ticks(pid) == Some(known.who.start_ticks);
        let why = match status {
            None if lives => Why::Executes,
            _ => Why::ProcessEnded,
        };
        // As long as its parent has not waited for it, the kernel tells.
        self.look_at_cpu(process, pid);
        let abnormally = status.is_some_and(is_abnormal);
        if let Some(build) = self.trials.end(process, abnormally) {
            self.leave_alone(build);
        }
        self.forget(pid, why);
    }

    /// A process is not to be watched any more.
    pub(super) fn forget(&mut self, pid: u32, why: Why) {
        if let Some(known) = self.roster.end(pid) {
            self.end_lease(known.process, why);
            let process = known.process;
            self.scheduler.take(self.now(), Event::Ended { process });
        }
    }

    /// A build does not bear it.
    pub(super) fn leave_alone(&mut self, build: BuildId) {
        self.builds_left_alone += 1;
        let of_build = self.roster.all().find(|known| known.build == build);
        let name = of_build.map_or("(none of it runs now)", |known| &known.who.exe);
        tracing::warn!(
            "a program is left alone from now on, since its processes end abnormally when they are watched: {name}; \
             restart the daemon to try it again, and please report it"
        );
        info!("left alone: {build:?}");
        self.scheduler.take(self.now(), Event::LeftAlone { build });
    }
}

/// Whether a process has ended as one that is well does not.
const fn is_abnormal(status: Status) -> bool {
    !matches!(status, Status::Exited(0))
}

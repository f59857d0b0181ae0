//! News of children and tracees, for several threads each of which has some of its own.
//!
//! The kernel tells a process, not a thread, and once where several children have news at a time (`SIGCHLD` in signal(7)). So whichever thread hears it
//! first tells all others, and each looks at its own. With one thread nobody is told.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::Arc,
};

use super::{Bell, child_news, drain};
use crate::kernel::KernelError;

/// A thread's ear. See the module.
#[derive(Debug)]
pub struct Ear {
    shared: Arc<Shared>,
    number: usize,
}

#[derive(Debug)]
struct Shared {
    signals: OwnedFd,
    bells: Vec<Bell>,
}

impl Ear {
    /// Ears of so many threads; all signals but SIGBUS are blocked from now on in the calling thread and those that it starts, as every thread of the process must have them.
    ///
    /// # Errors
    /// Fails where signalfd(2) or eventfd(2) does.
    pub fn several(count: usize) -> Result<Vec<Self>, KernelError> {
        let shared = Arc::new(Shared {
            signals: child_news()?,
            bells: (0..count).map(|_| Bell::new()).collect::<Result<_, _>>()?,
        });
        let ear = |number| Self {
            shared: Arc::clone(&shared),
            number,
        };
        Ok((0..count).map(ear).collect())
    }

    /// Readable when some child may have news: one of these descriptors is.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        let own = self.shared.bells.get(self.number);
        let signals = self.shared.signals.as_fd();
        [signals, own.map_or(signals, |bell| bell.as_fd())]
    }

    /// Readable when some child may have news, for another process that was forked with this one and hears alone: it forgets them by [`drain`].
    #[must_use]
    pub fn signals(&self) -> BorrowedFd<'_> {
        self.shared.signals.as_fd()
    }

    /// Takes note that they are readable: the thread looks at its own children next.
    pub fn hear(&self) {
        if let Some(own) = self.shared.bells.get(self.number)
            && self.shared.bells.len() > 1
        {
            own.silence();
        }
        if drain(self.shared.signals.as_fd()) {
            let others = self.shared.bells.iter().enumerate();
            others
                .filter(|(number, _)| *number != self.number)
                .for_each(|(_, bell)| bell.ring());
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::{os::unix::process::CommandExt as _, process::Command};

    /// Whether this is a process all of whose threads have SIGCHLD blocked, as those of a tracer have, so that nobody else takes it. If not, the test that asks was executed in one meanwhile,
    /// and has passed.
    pub(crate) fn is_sigchld_blocked() -> bool {
        const INSIDE: &str = "GWP_RACE_TEST_BLOCKED";
        if std::env::var_os(INSIDE).is_some() {
            return true;
        }
        let name = std::thread::current().name().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([&name, "--exact"]).env(INSIDE, "yes");
        // SAFETY: between fork and exec it makes calls that signal-safety(7) allows.
        unsafe {
            command.pre_exec(|| {
                let mut child: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut child);
                libc::sigaddset(&raw mut child, libc::SIGCHLD);
                libc::sigprocmask(libc::SIG_BLOCK, &raw const child, std::ptr::null_mut());
                Ok(())
            });
        }
        assert!(command.status().unwrap().success());
        false
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        time::{Duration, Instant},
    };

    use super::{testing::is_sigchld_blocked, *};
    use crate::kernel::{process::wait_readable, ptrace};

    const LIMIT: Duration = Duration::from_secs(30);

    /// Check that each of several threads hears of the end of its own children, however many others end at the same time, and is told of nobody else's
    /// by waitid(2).
    #[test]
    fn each_hears_of_its_own() {
        const THREADS: usize = 4;
        const CHILDREN: usize = 50;
        if !is_sigchld_blocked() {
            return;
        }
        let ears = Ear::several(THREADS).unwrap();
        std::thread::scope(|scope| {
            for ear in ears {
                scope.spawn(move || (0..CHILDREN).for_each(|_| wait_for_a_child(&ear)));
            }
        });
    }

    /// Starts a child and hears of its end.
    fn wait_for_a_child(ear: &Ear) {
        // Its end is heard of by `take`.
        #[allow(clippy::zombie_processes)]
        let child = Command::new("true").spawn().unwrap();
        let start = Instant::now();
        while ptrace::peek().unwrap().is_none() {
            let news = wait_readable(ear.fds(), Some(LIMIT)).unwrap();
            assert!(news.contains(&true), "nobody has told of the end");
            ear.hear();
            assert!(start.elapsed() < LIMIT);
        }
        let ended = ptrace::take(child.id()).unwrap();
        assert_eq!(ended, Some((child.id(), ptrace::Stop::Exited)));
    }
}

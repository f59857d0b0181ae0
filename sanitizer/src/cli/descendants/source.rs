//! Where it comes from what the processes below the first one do: the kernel tells ([`Descent`]), or `/proc` is searched.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use tokio::io::unix::AsyncFd;
use tracing::{debug, warn};

use gwp_race_abi::descent::MOST;

use super::{as_pid, comm, sleep_until};
use crate::{
    kernel::{
        descent::{Descent, News},
        executed::Executed,
        process::thread_cpu_time_ns,
    },
    tracee::descendants::{Change, Descendants as Search},
};

/// How often `/proc` is searched, where it is: as much time passes, and so many times what the last search took.
const SEARCH: Duration = Duration::from_millis(100);
const SEARCH_RESTS: u32 = 200;
/// To find out who is there after something was not told takes a look at all of them: no more often than this.
const BETWEEN_CATCHES: Duration = Duration::from_secs(1);

enum Kind {
    Kernel(Box<AsyncFd<Descent>>),
    Search { search: Search, next: Instant },
}

/// What there is to be taken in.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// In the order in which it was.
    pub news: Vec<News>,
    /// So much was not told for want of room, or of processes that could not be followed.
    pub lost: u64,
    /// Who is there, where that is to be compared with who is known.
    pub followed: Option<HashSet<u32>>,
}

/// See the module.
pub(super) struct Source {
    kind: Kind,
    /// Why they are searched for in `/proc`, where they are.
    refusal: Option<String>,
    catching: CatchingUp,
    /// The user was told that no more can be followed.
    full_is_told: bool,
}

impl Source {
    /// Follows nobody yet.
    pub(super) fn new() -> Self {
        let mut new = Self {
            kind: Kind::search(),
            refusal: None,
            catching: CatchingUp::default(),
            full_is_told: false,
        };
        match Descent::load().and_then(Descent::awaited) {
            Ok(descent) => new.kind = Kind::Kernel(Box::new(descent)),
            Err(error) => new.refusal = Some(error.to_string()),
        }
        new
    }

    /// Why `/proc` is searched, where it is.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Follows a process and those below it.
    pub(super) fn follow(&mut self, pid: u32) {
        if let Kind::Kernel(descent) = &mut self.kind
            && let Err(error) = descent.get_mut().follow(pid)
        {
            self.refusal = Some(error.to_string());
            self.kind = Kind::search();
        }
        if let Kind::Search { search, .. } = &mut self.kind {
            search.follow(as_pid(pid));
        }
    }

    /// Follows nobody any more.
    pub(super) fn end(&mut self) {
        self.kind = Kind::search();
        self.catching = CatchingUp::default();
    }

    /// Whether forks of a process are told of as long as it executes the same program.
    pub(super) fn tell_forks(&mut self, pid: u32, tell: bool) {
        if let Kind::Kernel(descent) = &mut self.kind
            && let Err(error) = descent.get_mut().tell_forks(pid, tell)
        {
            debug!("{error}");
        }
    }

    /// Waits until there may be news, or it is time for something else.
    pub(super) async fn wait(&mut self, due: Option<Instant>) {
        let sooner = |due: Option<Instant>, other| due.map_or(other, |due: Instant| due.min(other));
        match &mut self.kind {
            Kind::Kernel(descent) => {
                let due = match self.catching.due() {
                    Some(other) => Some(sooner(due, other)),
                    None => due,
                };
                tokio::select! {
                    Ok(mut guard) = descent.readable_mut() => guard.clear_ready(),
                    () = sleep_until(due) => {}
                }
            }
            Kind::Search { next, .. } => sleep_until(Some(sooner(due, *next))).await,
        }
    }

    /// What there is to be taken in.
    pub(super) fn told(&mut self, now: Instant) -> Told {
        let descent = match &mut self.kind {
            Kind::Kernel(descent) => descent.get_mut(),
            Kind::Search { search, next } => {
                let mut told = Told::default();
                if *next <= now {
                    let before = thread_cpu_time_ns();
                    told.news = search.look().into_iter().flat_map(to_news).collect();
                    let took = thread_cpu_time_ns().saturating_sub(before);
                    *next = now + SEARCH.max(Duration::from_nanos(took) * SEARCH_RESTS);
                }
                return told;
            }
        };
        let news = std::iter::from_fn(|| descent.next_news()).collect();
        let (untold, unfollowed) = (descent.lost(), descent.unfollowed());
        if untold > 0 {
            self.catching.is_needed();
        }
        if unfollowed > 0 && !std::mem::replace(&mut self.full_is_told, true) {
            warn!(
                "more than {MOST} processes live below the first one: those beyond, and what they start, are not followed; \
                 watch a part of them (gwp-race attach)"
            );
        }
        Told {
            news,
            lost: untold + unfollowed,
            followed: self.catching.begins(now).then(|| descent.followed()),
        }
    }

    /// All that the kernel has told until now, taken from it as a full buffer would.
    #[cfg(test)]
    pub(super) fn lose(&mut self) -> Option<Vec<News>> {
        match &mut self.kind {
            Kind::Kernel(descent) => {
                let descent = descent.get_mut();
                Some(std::iter::from_fn(|| descent.next_news()).collect())
            }
            Kind::Search { .. } => None,
        }
    }
}

impl Kind {
    fn search() -> Self {
        Self::Search {
            search: Search::default(),
            next: Instant::now(),
        }
    }
}

/// When it is found out who is there, after something was not told.
#[derive(Debug, Default)]
struct CatchingUp {
    is_needed: bool,
    /// Not before.
    next: Option<Instant>,
}

impl CatchingUp {
    const fn is_needed(&mut self) {
        self.is_needed = true;
    }

    /// When it is to be done next, where it is needed.
    fn due(&self) -> Option<Instant> {
        self.next.filter(|_| self.is_needed)
    }

    /// Whether it is done now.
    fn begins(&mut self, now: Instant) -> bool {
        let may = self.next.is_none_or(|next| now >= next);
        let begins = self.is_needed && may;
        if begins {
            self.is_needed = false;
            self.next = Some(now + BETWEEN_CATCHES);
        }
        begins
    }
}

/// What a search has found, as the kernel would tell it.
fn to_news(change: Change) -> Vec<News> {
    let id = |pid: nix::unistd::Pid| pid.as_raw().cast_unsigned();
    let executes = |pid| News::Executes {
        pid: id(pid),
        name: comm(id(pid)),
        executed: Executed::by(id(pid)),
    };
    match change {
        Change::New { pid, parent } => {
            let forked = News::Forked {
                pid: id(pid),
                parent: id(parent),
            };
            let executes_another = Executed::by(id(pid)).map(|it| it.file)
                != Executed::by(id(parent)).map(|it| it.file);
            let more = executes_another.then(|| executes(pid));
            std::iter::once(forked).chain(more).collect()
        }
        Change::Executes(pid) => vec![executes(pid)],
        Change::Ended(pid) => vec![News::Ended { pid: id(pid) }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that, however often something is not told, all processes are looked for once a second at most, and once after the last time.
    #[test]
    fn catching_up_is_rare() {
        const STEP: Duration = Duration::from_millis(1);
        let begun = Instant::now();
        let mut catching = CatchingUp::default();
        let mut count = 0;
        for step in 0..10_000 {
            catching.is_needed();
            count += u32::from(catching.begins(begun + STEP * step));
        }
        assert_eq!(count, 10);
        let last = begun + STEP * 9_999;
        let due = catching.due().unwrap();
        assert!(due > last && due <= last + BETWEEN_CATCHES);
        assert!(!catching.begins(due - STEP));
        assert!(catching.begins(due));
        assert!(catching.due().is_none());
        assert!(!catching.begins(due + 10 * BETWEEN_CATCHES));
    }
}

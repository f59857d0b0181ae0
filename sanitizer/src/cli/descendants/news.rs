//! What the kernel tells of processes that begin and end.

use std::collections::HashSet;
use std::time::Instant;

use gwp_race_abi::descent::ExecutedFile;
use tracing::debug;

use crate::cli::not_watched::Reason;
use crate::cli::programs::Carries;
use crate::kernel::descent::News;

use super::{Descendants, FORKED_AGE, Relative, comm};

impl Descendants {
    /// Takes in what was told.
    pub(super) fn take_in_all(&mut self, now: Instant) {
        let told = self.source.told(now);
        self.not_watched.count("", Reason::Untold, told.lost);
        if let Some(followed) = told.followed {
            self.catch_up(&followed, now);
        }
        for news in told.news {
            self.take_in(news, now);
        }
    }

    /// Takes in who is there, after something was not told of.
    pub(super) fn catch_up(&mut self, followed: &HashSet<u32>, now: Instant) {
        let ended: Vec<u32> = self
            .relatives
            .keys()
            .copied()
            .filter(|pid| !followed.contains(pid))
            .collect();
        for pid in ended {
            self.has_ended(pid);
        }
        let new = followed
            .iter()
            .filter(|pid| !self.relatives.contains_key(pid));
        for pid in new.copied().collect::<Vec<_>>() {
            let relative = Relative::new(comm(pid), None, now);
            self.relatives.insert(pid, relative);
            self.put_on_agenda(pid, now);
        }
    }

    fn take_in(&mut self, news: News, now: Instant) {
        match news {
            News::Forked { pid, parent } => {
                let mut relative = Relative::new(String::new(), None, now);
                if let Some(parent) = self.relatives.get(&parent) {
                    relative.name.clone_from(&parent.name);
                    relative.program = parent.program;
                    // Where it does not execute what is covered: what it will, or has mapped since, is not known.
                    relative.covered = parent.covered.filter(|&covered| covered);
                }
                let age = self.least_life(&relative).max(FORKED_AGE);
                self.relatives.insert(pid, relative);
                self.put_on_agenda(pid, now + age);
            }
            News::Executes {
                pid,
                name,
                executed,
            } => {
                let mut relative = Relative::new(name, None, now);
                relative.executes = true;
                if let Some(executed) = executed {
                    self.executes(&mut relative, executed);
                }
                let age = match relative.program.map(|file| self.programs.carries(file)) {
                    Some(Carries::No) if !self.takes_all => self.next_look(&relative),
                    _ => self.least_life(&relative),
                };
                if let Some(before) = self.relatives.get(&pid) {
                    relative.is_watched = before.is_watched;
                    relative.due = before.due;
                }
                let is_watched = relative.is_watched;
                self.relatives.insert(pid, relative);
                if !is_watched {
                    self.put_on_agenda(pid, now + age);
                }
            }
            News::Ended { pid } => self.has_ended(pid),
        }
        let forgotten = self.programs.take_forgotten();
        self.not_watched.count("", Reason::Unidentified, forgotten);
    }

    pub(super) fn has_ended(&mut self, pid: u32) {
        let Some(relative) = self.relatives.remove(&pid) else {
            return;
        };
        if let Some(due) = relative.due {
            self.agenda.remove(&(due, pid));
        }
        if relative.is_watched {
            return;
        }
        let carries = relative.program.map(|file| self.programs.carries(file));
        match (relative.program, carries) {
            (Some(file), Some(Carries::Unknown | Carries::Asked)) => self.programs.ended(file),
            (_, Some(Carries::Hidden)) => {
                let reason = if relative.covered == Some(true) {
                    relative.reason
                } else {
                    Reason::Unidentified
                };
                if relative.covered != Some(false) {
                    self.not_watched.count(&relative.name, reason, 1);
                }
            }
            (file, _) => {
                let is_covered = file.is_some_and(|file| self.programs.is_covered(file));
                if relative.covered.unwrap_or(is_covered) {
                    self.not_watched.count(&relative.name, relative.reason, 1);
                } else if file.is_none() && relative.covered.is_none() && relative.executes {
                    debug!(
                        "a program ended before it was looked at: {} (process {pid})",
                        relative.name
                    );
                }
            }
        }
    }

    /// Counts those that ended before anything was known of a program, if they were worth a tracer.
    pub(super) fn count_ended(&mut self, file: ExecutedFile) {
        let others = [self.first, std::process::id()];
        let carries = self.programs.identify(file, None, &others, &mut self.files);
        if carries == Carries::Asked {
            self.unanswered.push(file);
            return;
        }
        let times = self.programs.take_ended(file);
        let name = self.programs.name(file).unwrap_or_default();
        match carries {
            Carries::Yes => self.not_watched.count(name, Reason::EndedEarly, times),
            Carries::Hidden => self.not_watched.count(name, Reason::Unidentified, times),
            Carries::No | Carries::Unknown | Carries::Asked => {}
        }
    }
}

//! When it is looked at a process, and what comes of it.

use std::time::{Duration, Instant};

use crate::cli::covered::Covered;
use crate::cli::programs::Carries;
use crate::kernel::executed::Executed;
use crate::tracee::threads;

use super::{Descendants, LOOKS, LOOKS_IN_VAIN, MOST_SKIPPED, Relative, as_pid, comm, start_ticks};

impl Descendants {
    /// How long a process must have lived to be worth a tracer.
    pub(super) fn least_life(&self, relative: &Relative) -> Duration {
        relative.program.map_or(Duration::ZERO, |file| {
            self.programs
                .least_life(file, relative.executes, Instant::now())
        })
    }

    /// After how long a process without metadata is looked at again: where others have shown that it is in vain, later.
    pub(super) fn next_look(&self, relative: &Relative) -> Duration {
        let without = relative.program.map_or(0, |file| {
            (self.programs.without(file) / LOOKS_IN_VAIN).min(MOST_SKIPPED)
        });
        let looks = LOOKS.get(relative.looks + without).or(LOOKS.last());
        looks.copied().unwrap_or_default()
    }

    pub(super) fn put_on_agenda(&mut self, pid: u32, at: Instant) {
        if let Some(relative) = self.relatives.get_mut(&pid) {
            if let Some(before) = relative.due.replace(at) {
                self.agenda.remove(&(before, pid));
            }
            self.agenda.insert((at, pid));
        }
    }

    /// Whether it is worth a tracer.
    pub(super) fn look_at(&mut self, pid: u32, now: Instant) {
        let Some(mut relative) = self.relatives.get(&pid).cloned() else {
            return;
        };
        relative.due = None;
        if !relative.is_watched {
            // That it has ended is about to be told, or was lost.
            let Ok(thread) = threads::live_thread(as_pid(pid)) else {
                self.has_ended(pid);
                return;
            };
            // Before anything else: what is found out may be about another one, which has got its id.
            relative.start_ticks = start_ticks(pid);
            self.judge(pid, thread.as_raw().cast_unsigned(), &mut relative, now);
        }
        let due = relative.due;
        self.relatives.insert(pid, relative);
        if let Some(due) = due {
            self.agenda.insert((due, pid));
        }
    }

    /// `thread`: one that is alive, through which `/proc` tells of the program: the first one may have ended.
    fn judge(&mut self, pid: u32, thread: u32, relative: &mut Relative, now: Instant) {
        if relative.name.is_empty() {
            relative.name = comm(pid);
        }
        if relative.program.is_none()
            && let Some(executed) = Executed::by(thread)
        {
            self.executes(relative, executed);
        }
        // What was forked has mapped what its parent has.
        let inherits = relative.program.is_some_and(|file| {
            let is_covered =
                relative.covered == Some(true) || self.programs.carries(file) == Carries::Yes;
            is_covered && !relative.executes && self.programs.is_executed_by(file, thread)
        });
        if inherits {
            relative.covered = Some(true);
            self.is_worthy(pid, relative, now);
            return;
        }
        let carries = relative.program.map_or(Carries::Hidden, |file| {
            let others = [self.first, std::process::id()];
            self.programs
                .identify(file, Some(thread), &others, &mut self.files)
        });
        if carries == Carries::Asked && !self.takes_all {
            self.wait_for_answer(pid);
            return;
        }
        // What it will load is not mapped yet when it begins.
        let begins = relative.executes
            && relative.looks == 0
            && carries == Carries::No
            && now.saturating_duration_since(relative.since) < LOOKS[0];
        if begins && !self.takes_all {
            relative.due = Some(relative.since + self.next_look(relative));
            return;
        }
        let is_covered = match carries {
            _ if self.takes_all => Some(true),
            Carries::Yes => Some(true),
            _ => match self.files.are_in(pid) {
                Covered::Is(is_covered) => Some(is_covered),
                Covered::Hidden => None,
                Covered::Asked => return self.wait_for_answer(pid),
            },
        };
        // It may execute another program by now, which is about to be told.
        if let Some(file) = relative.program
            && carries != Carries::Yes
            && !self.programs.is_executed_by(file, thread)
        {
            relative.due = Some(now + LOOKS[0]);
            return;
        }
        relative.covered = is_covered;
        if let Some(file) = relative.program
            && let Some(is_covered) = is_covered
        {
            self.programs.learn(file, is_covered, relative.looks == 0);
        }
        if is_covered == Some(true) {
            if relative.looks > 0 {
                self.source.tell_forks(pid, true);
            }
            self.is_worthy(pid, relative, now);
            return;
        }
        relative.due = Some(now + self.next_look(relative));
        relative.looks += 1;
        if relative.looks == 1 {
            self.source.tell_forks(pid, false);
        }
    }

    /// It is looked at a process again when somebody has answered who was asked about its files.
    fn wait_for_answer(&mut self, pid: u32) {
        self.wait_for_answers.push(pid);
    }

    /// Somebody has answered who was asked about files.
    pub(super) fn look_again(&mut self, now: Instant) {
        for file in std::mem::take(&mut self.unanswered) {
            self.programs.ask_again(file);
        }
        for pid in std::mem::take(&mut self.wait_for_answers) {
            self.put_on_agenda(pid, now);
        }
    }

    /// A process is worth a tracer, as soon as it has lived long enough.
    fn is_worthy(&mut self, pid: u32, relative: &mut Relative, now: Instant) {
        let least = relative.since + self.least_life(relative);
        if now < least {
            relative.due = Some(least);
        } else {
            self.worthy.push_back(pid);
        }
    }
}

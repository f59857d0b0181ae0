//! What is asked about processes, and what comes of that.

use std::time::{Duration, Instant, SystemTime};

use nix::unistd::Pid;
use tracing::{debug, warn};

use super::{
    Change, Discovery, FIRST_LOOK, Held, LAST_LOOK, Left,
    looks::{self, Answer, Question},
};
use crate::{
    cli::fleet::survey::{Found, is_gone},
    kernel::{KernelError, executed::Executed, limits::is_shortage, process::end_of},
    report::clean::clean,
    tracee::threads::name,
};

/// What a look is taken to cost as long as that is not known.
const USUAL: Duration = Duration::from_millis(1);

impl Discovery {
    /// Asks about those that are to be judged again, and looks at those that are due, as far as the allowance goes; the others come later.
    pub(super) fn ask(&mut self, now: Instant) {
        while self.looks.has_room() {
            if let Some(pid) = self.to_judge.pop_front() {
                if let Some(held) = self.held.get(&pid) {
                    self.looks.ask(pid, Question::IsWanted(held.program));
                }
                continue;
            }
            let asked = u32::try_from(self.looks.waiting()).unwrap_or(u32::MAX);
            if !self.allowance.has_more(USUAL * asked, now) {
                return;
            }
            let Some(pid) = self.agenda.pop_front() else {
                return;
            };
            let executed = self.due.remove(&pid).flatten();
            if !self.held.contains_key(&pid) && !self.looks.are_at(pid) {
                self.looks.ask(pid, Question::Look(executed));
            }
        }
    }

    /// Takes in what has come of looks.
    pub(super) fn take_answers(&mut self, now: Instant, changes: &mut Vec<Change>) {
        while let Some(answered) = self.looks.next() {
            let pid = answered.pid;
            if matches!(answered.question, Question::Look(_)) {
                self.allowance.spend(answered.cost);
            }
            match (answered.question, answered.answer) {
                (Question::Look(executed), Some(Answer::Looked { found, is_dull })) => {
                    if let Some(found) = found {
                        self.has_found(found, now, changes);
                    }
                    if let (true, Some(executed)) = (is_dull, executed) {
                        self.drop_file(&executed);
                    }
                }
                (_, Some(Answer::IsWanted(false))) => {
                    self.release(pid, None, changes);
                    self.put_on_agenda(pid, None);
                }
                _ => {}
            }
        }
        self.allowance.spend(self.looks.take_late());
    }

    /// Goes on without a look that hangs: the process is left alone until something has come of it.
    pub(super) fn leave_hung(&mut self, changes: &mut Vec<Change>) {
        let Some(pid) = self.looks.leave_hung() else {
            return;
        };
        let id = Pid::from_raw(pid.cast_signed());
        let name = name(id, id).unwrap_or_default();
        warn!(
            "process {pid} ({}) is left alone: a look at it has not ended for {}, as where a file system has fallen silent; it is looked at again when that has ended",
            clean(&name),
            humantime::format_duration(looks::LONGEST)
        );
        if self.looks.are_hung() {
            warn!(
                "{} looks at processes hang, so that no further ones are found; end the processes that were named, or have their file systems answer",
                looks::MOST_HUNG
            );
        }
        self.release(pid, None, changes);
    }

    /// Nothing more is told of a file that a process was told to execute, which is one without metadata. Whatever it loads is found by looking at processes.
    fn drop_file(&mut self, executed: &Executed) {
        if let Some(kernel) = &mut self.kernel
            && let Err(error) = kernel.drop_file(&executed.file, SystemTime::now())
        {
            debug!("{error}");
        }
    }

    /// It was looked at a process.
    fn has_found(&mut self, found: Box<Found>, now: Instant, changes: &mut Vec<Change>) {
        let pid = found.pid;
        if self.held.contains_key(&pid) {
            return;
        }
        // It is looked at again when all are looked for.
        if found.verdict.is_passing() {
            return;
        }
        let held = found.verdict.watch.then(|| self.hold(&found));
        match held {
            Some(Err(error)) if is_shortage(&error.source) => return,
            Some(Ok(Some(held))) => {
                self.held.insert(pid, held);
                self.left.remove(&pid);
                changes.push(Change::Began(found));
                return;
            }
            _ => {}
        }
        let before = self.left.get(&pid).map_or(FIRST_LOOK, |left| left.after);
        // Who has lately been looked at in vain is looked at more rarely.
        let left = Left {
            start_ticks: found.start_ticks,
            next: now + before,
            after: (before * 2).min(LAST_LOOK),
        };
        self.left.insert(pid, left);
        if let Some(kernel) = &mut self.kernel {
            kernel.forget(pid);
        }
    }

    /// Nothing of a process that is gone.
    ///
    /// # Errors
    /// There is no room for another descriptor.
    fn hold(&mut self, found: &Found) -> Result<Option<Held>, KernelError> {
        let end = end_of(found.pid)?;
        // Who was there before, or was only forked, was not told of.
        if let Some(kernel) = &mut self.kernel
            && let Err(error) = kernel.follow(found.pid)
        {
            debug!("{error}");
        }
        let held = found.program.as_ref().map(|about| Held {
            start_ticks: found.start_ticks,
            program: (about.device, about.inode),
            _end: end,
        });
        // Before, another process might have got its id.
        Ok(held.filter(|held| !is_gone(found.pid, held.start_ticks)))
    }
}

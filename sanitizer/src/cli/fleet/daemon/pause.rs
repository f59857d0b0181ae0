//! Whether somebody wants nobody to be watched: by a command, for a time or until he says otherwise, or by a file, as long as it is there.

use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    by_file: bool,
    by_command: bool,
    /// When that of a command is over.
    until: Option<Duration>,
    was_paused: bool,
}

impl Pause {
    /// A command wants it, until then.
    pub const fn pause(&mut self, until: Option<Duration>) {
        (self.by_command, self.until) = (true, until);
    }

    /// A command wants it no more.
    pub const fn resume(&mut self) {
        (self.by_command, self.until) = (false, None);
    }

    /// The file is there, or not.
    pub const fn look(&mut self, is_there: bool) {
        self.by_file = is_there;
    }

    /// Whether the file is there.
    pub const fn is_by_file(&self) -> bool {
        self.by_file
    }

    /// Whether nobody is to be watched now.
    pub fn is_paused(&mut self, now: Duration) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            self.resume();
        }
        self.by_file || self.by_command
    }

    /// For how long that of a command goes on, where it has a time.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        Some(self.until?.saturating_sub(now))
    }

    /// The same, where it has changed since this was asked last.
    pub fn change(&mut self, now: Duration) -> Option<bool> {
        let is_paused = self.is_paused(now);
        (std::mem::replace(&mut self.was_paused, is_paused) != is_paused).then_some(is_paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that either is enough, that a time ends that of a command alone, and that each change is told once.
    #[test]
    fn either_is_enough() {
        let secs = Duration::from_secs;
        let mut pause = Pause::default();
        assert_eq!(pause.change(secs(0)), None);
        pause.pause(Some(secs(10)));
        assert_eq!(pause.change(secs(1)), Some(true));
        assert_eq!(pause.change(secs(9)), None);
        assert_eq!(pause.left(secs(9)), Some(secs(1)));
        pause.look(true);
        assert_eq!(pause.change(secs(11)), None);
        assert_eq!(pause.left(secs(11)), None);
        pause.look(false);
        assert_eq!(pause.change(secs(12)), Some(false));
        pause.pause(None);
        assert_eq!(pause.change(secs(9999)), Some(true));
        pause.resume();
        assert_eq!(pause.change(secs(9999)), Some(false));
    }
}

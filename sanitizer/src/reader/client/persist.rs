//! How long it is asked, and which files are to blame where there is no answer.

use std::time::Instant;

use super::{Client, Failure, Nothing};
use crate::{
    reader::{ends::Ends, process::End},
    symbols::FileIdentity,
};

impl Client {
    /// What is asked from now on takes no longer than one answer may, all together. (File systems are waited for as they please.)
    pub(in crate::reader) fn begin_together(&mut self) {
        self.limit = Some(Instant::now() + self.deadline);
    }

    /// Whether what is asked together has taken so long.
    pub(in crate::reader) fn is_late(&self) -> bool {
        self.limit.is_some_and(|limit| Instant::now() >= limit)
    }

    pub(super) fn until(&self) -> Instant {
        let until = Instant::now() + self.deadline;
        self.limit.map_or(until, |limit| until.min(limit))
    }

    /// Whether so much time is left that a reader which does not start in it cannot be started.
    pub(super) fn has_time_to_start(&self) -> bool {
        let left = self.until().saturating_duration_since(Instant::now());
        left >= self.deadline / 2
    }

    /// Forgets which files have ended readers.
    pub(in crate::reader) fn forget_ends(&mut self) {
        self.ends = Ends::new(self.purpose.duty.reads);
    }

    /// Does something with a file until it is done, or the file has ended too many readers, each of which had it alone open.
    pub(super) fn persist<T>(
        &mut self,
        identity: FileIdentity,
        name: &str,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Nothing> {
        while self.ends.unread(identity).is_none() && !self.is_late() {
            let begin = Instant::now();
            match attempt(self) {
                Ok(done) => return Ok(done),
                Err(Failure::NoReader) => break,
                Err(Failure::NoFile(why)) => return Err(Nothing::NoFile(why)),
                Err(Failure::Ended(end)) => {
                    // Another one may have taken the reader over; and whoever was asked last had less time than others.
                    let is_alone = self.open.len() <= 1;
                    let had_time =
                        !matches!(end, End::Late(_)) || begin.elapsed() >= self.deadline / 2;
                    self.rest_of_reader();
                    if is_alone
                        && had_time
                        && let Some(why) = self.ends.note(identity, name, end)
                    {
                        tracing::warn!("{}", self.given_up(name, &why));
                    }
                }
            }
        }
        Err(Nothing::Unread)
    }
}

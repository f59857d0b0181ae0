//! A reader that is asked about one file, and waited for.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{Asking, OutlineReader, Turn};
use crate::{
    image::{HandedOver, Raw},
    reader::{
        process::{End, Process},
        wire::{LONGEST_OUTLINE, Request, Told},
    },
};

/// Why there is no answer.
pub(super) enum Failure {
    /// No reader can be started.
    NoReader,
    /// It cannot be asked.
    Unasked,
    /// The reader came to its end, or had to.
    Ended(End),
    /// Nobody waits for it.
    Past,
}

/// A reader that was asked, and when it is to have answered.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) process: Process,
    pub(super) until: Instant,
}

impl Asking<'_> {
    /// Asks one that has seen nothing else.
    pub(super) fn ask(&mut self, bytes: &Raw, name: &str) -> Result<Asked, Failure> {
        let until = self.reader.until();
        let gone_ns = self.reader.reader.cpu_ns() + self.reader.later.cpu_ns();
        let OutlineReader {
            reader, spent_ns, ..
        } = &mut *self.reader;
        let (turn, is_past) = (&mut self.turn, &mut self.is_past);
        let mut is_unwanted = |ns| is_unwanted(gone_ns + ns, spent_ns, turn, is_past);
        reader.started_while(until, &mut is_unwanted);
        let Some(mut process) = reader.take() else {
            return Err(match self.is_past {
                true => Failure::Past,
                false => Failure::NoReader,
            });
        };
        let name = name.to_owned();
        let told = match bytes.handed_over() {
            HandedOver::File(file, size) => {
                let request = Request::OutlineOfFile(size, name);
                process.tell(&request, Some(file), Some(until))
            }
            HandedOver::Bytes(bytes) => {
                let request = Request::OutlineOfBytes(bytes.to_vec(), name);
                process.tell(&request, None, Some(until))
            }
        };
        if let Err(error) = told {
            let failure = match error.kind() {
                io::ErrorKind::InvalidInput => Failure::Unasked,
                _ => Failure::Ended(process.end_by(&error, self.reader.deadline)),
            };
            self.reader.reader.retire_other(process);
            return Err(failure);
        }
        Ok(Asked { process, until })
    }

    /// Waits for an answer, as long as anybody wants it.
    pub(super) fn hear(&mut self, asked: &mut Asked) -> Result<Told, Failure> {
        let gone_ns = self.reader.reader.cpu_ns() + self.reader.later.cpu_ns();
        let deadline = self.reader.deadline;
        let spent_ns = &mut self.reader.spent_ns;
        let (turn, is_past) = (&mut self.turn, &mut self.is_past);
        let mut is_unwanted = |ns| is_unwanted(gone_ns + ns, spent_ns, turn, is_past);
        let Asked { process, until } = asked;
        process
            .hear_while(LONGEST_OUTLINE, *until, &mut is_unwanted)
            .map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => Failure::Past,
                _ => Failure::Ended(process.end_by(&error, deadline)),
            })
    }
}

/// Tells whoever looks that so much CPU time was used in all, ns; whether he does not want to know any more: he is not asked again then.
fn is_unwanted(
    now_ns: u64,
    spent_ns: &mut u64,
    turn: &mut Option<Turn<'_>>,
    is_past: &mut bool,
) -> bool {
    let new = now_ns.saturating_sub(*spent_ns);
    *spent_ns = now_ns.max(*spent_ns);
    if !*is_past {
        *is_past = (turn.as_mut()).is_none_or(|turn| turn(Duration::from_nanos(new)));
    }
    *is_past
}

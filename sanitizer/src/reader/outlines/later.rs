//! What is known of files in which nobody was interested any more when it was told: for whoever looks at one of them next.

use std::{
    io,
    time::{Duration, Instant},
};

use super::asked::Asked;
use crate::{
    image::Raw,
    kernel::foreign::FileIdentity,
    reader::{
        renewed::Renewed,
        wire::{LONGEST_OUTLINE, Told},
    },
    symbols::Outlined,
};

/// So many files are kept, those that were read last.
const MOST: usize = 64;
/// What is known of all of them takes no more memory than this, in bytes.
const MOST_BYTES: usize = 32 << 20;
/// So long whoever still reads is listened to at a time.
const LISTEN: Duration = Duration::from_millis(5);

/// A file that somebody reads.
#[derive(Debug)]
pub(super) struct Pending {
    identity: FileIdentity,
    bytes: Raw,
    asked: Asked,
}

impl Pending {
    pub(super) const fn new(identity: FileIdentity, bytes: Raw, asked: Asked) -> Self {
        Self {
            identity,
            bytes,
            asked,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Later {
    read: Vec<(FileIdentity, Outlined)>,
    pending: Option<Pending>,
}

impl Later {
    /// Lets a reader finish what it was asked about. One that has not finished something else by now does not any more.
    pub(super) fn wait(&mut self, pending: Pending, readers: &mut Renewed) {
        self.collect(readers);
        if let Some(before) = self.pending.replace(pending) {
            readers.retire_other(before.asked.process);
        }
    }

    /// Keeps what was told by now, and ends a reader that is late.
    pub(super) fn collect(&mut self, readers: &mut Renewed) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        let Asked { process, until } = &mut pending.asked;
        let listened = process.hear(LONGEST_OUTLINE, Some(Instant::now() + LISTEN));
        let outline = match listened {
            Ok((Told::Outline(outline), _)) if outline.is_sound() => Some(*outline),
            Err(error) if error.kind() == io::ErrorKind::TimedOut && Instant::now() < *until => {
                self.pending = Some(pending);
                return;
            }
            // Whoever looks next finds out.
            _ => None,
        };
        readers.retire_other(pending.asked.process);
        if let Some(outline) = outline {
            pending.bytes.close();
            self.keep(pending.identity, Outlined::new(pending.bytes, outline));
        }
    }

    pub(super) const fn is_reading(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether a file is read by somebody.
    pub(super) fn reads(&self, identity: FileIdentity) -> bool {
        (self.pending.as_ref()).is_some_and(|pending| pending.identity == identity)
    }

    /// Takes over from whoever does not wait for the reader of a file.
    pub(super) fn take(&mut self, identity: FileIdentity) -> Option<(Raw, Asked)> {
        let pending = self
            .pending
            .take_if(|pending| pending.identity == identity)?;
        Some((pending.bytes, pending.asked))
    }

    /// Whether what is known of a file is kept.
    pub(super) fn has(&self, identity: FileIdentity) -> bool {
        self.read.iter().any(|(kept, _)| *kept == identity)
    }

    /// What is known of a file, where that is kept.
    pub(super) fn find(&self, identity: FileIdentity) -> Option<Outlined> {
        let mut read = self.read.iter();
        let (_, outlined) = read.find(|(kept, _)| *kept == identity)?;
        Some(outlined.clone())
    }

    /// Keeps what is known of a file, unless that was cut short.
    pub(super) fn keep(&mut self, identity: FileIdentity, outlined: Outlined) {
        self.read.retain(|(kept, _)| *kept != identity);
        if outlined.is_cut() || outlined.bytes() > MOST_BYTES / 2 {
            return;
        }
        self.read.push((identity, outlined));
        while self.read.len() > MOST || self.bytes() > MOST_BYTES {
            self.read.remove(0);
        }
    }

    /// Forgets files that somebody else keeps now.
    pub(super) fn forget(&mut self, files: &[(FileIdentity, Outlined)]) {
        let is_theirs = |identity: &FileIdentity| files.iter().any(|(file, _)| file == identity);
        self.read.retain(|(kept, _)| !is_theirs(kept));
    }

    /// CPU time that whoever still reads has used, ns.
    pub(super) fn cpu_ns(&self) -> u64 {
        (self.pending.as_ref()).map_or(0, |pending| pending.asked.process.cpu_ns())
    }

    fn bytes(&self) -> usize {
        let read = self.read.iter();
        read.map(|(_, outlined)| outlined.bytes()).sum()
    }
}

//! The tracer's side: what tables of basic blocks and live values tell of the code at an address, before what was caught there is judged.
//!
//! Whoever has caught something waits for the answer, and holds nobody meanwhile. A reader is started for the first question about a process, reads files of
//! that process alone, and ends with it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Client, Program};
use crate::{
    addr::LinkAddr,
    kernel::foreign::FileIdentity,
    symbols::{Answer, CodeFacts, Files as _, Known, ModuleInfo, Question, Sources},
};

/// So many files are kept open, those that were asked about last.
const MOST_HELD: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct CodeReader {
    client: Client,
    held: Vec<(FileIdentity, Arc<Known>)>,
    /// The files of which was told that they are read no more.
    told: BTreeSet<String>,
    /// What it was when it was asked last, ns.
    spent_ns: u64,
    has_told_refusal: bool,
}

impl CodeReader {
    /// One is started when it is needed.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            client: Client::for_code(program, Sources::default()),
            held: Vec::new(),
            told: BTreeSet::new(),
            spent_ns: 0,
            has_told_refusal: false,
        }
    }

    /// What is asked from now on is for one judgement: all of it takes no longer than an answer may.
    pub fn begin(&mut self) {
        self.client.begin_together();
    }

    /// Whether it has taken so long since.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.client.is_late()
    }

    /// What is told of the code around a link-time address of a module's file, which must be this very one; `Ok(None)` of a file without tables.
    ///
    /// # Errors
    /// Fails where the file is another one by now, and where nobody answers.
    pub fn around(
        &mut self,
        module: &ModuleInfo,
        file: FileIdentity,
        pc: LinkAddr,
    ) -> Result<Option<CodeFacts>, Unanswered> {
        let known = self.known(module, file).ok_or(Unanswered)?;
        match self.client.ask(&known, Question::Code(pc.0), None) {
            Some(Answer::Code(facts)) => Ok(facts),
            _ => Err(Unanswered),
        }
    }

    /// The file, which is open from now on; nothing where another one is in its place.
    fn known(&mut self, module: &ModuleInfo, file: FileIdentity) -> Option<Arc<Known>> {
        let mut held = self.held.iter();
        let known = match held.position(|(held, _)| *held == file) {
            Some(index) => self.held.remove(index).1,
            None => self
                .client
                .open(module)
                .filter(|known| is_of(known, file))?,
        };
        if self.held.len() >= MOST_HELD {
            self.held.remove(0);
        }
        self.held.push((file, Arc::clone(&known)));
        Some(known)
    }

    /// What users are to be told of readers since the last time.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, why) in &self.client.figures().unread {
            if self.told.insert(name.clone()) {
                lines.push(self.client.given_up(name, why));
            }
        }
        if !self.has_told_refusal
            && let Some(refusal) = self.client.refusal()
        {
            self.has_told_refusal = true;
            lines.push(refusal);
        }
        lines
    }

    /// CPU time that readers have used since the last time.
    pub fn take_cpu(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.spent_ns, self.client.cpu_ns());
        Duration::from_nanos(self.spent_ns.saturating_sub(before))
    }

    /// Ends the reader and forgets all files: what one has read of a process is no other one's, and no file is given up for what another process's has done.
    pub fn rest(&mut self) {
        self.held.clear();
        self.told.clear();
        self.client.rest();
        self.client.forget_ends();
    }

    #[cfg(test)]
    pub(super) fn reader(&self) -> Option<u32> {
        self.client.reader()
    }
}

/// There is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

/// Whether a file is the one with this identity, or a copy of it. That is mapped, so that no other one can have its inode; what was changed in it meanwhile
/// has changed in the map as well.
fn is_of(known: &Known, (device, inode, size, ..): FileIdentity) -> bool {
    let identity = known.source.opened().identity;
    identity.is_at(device, inode) && identity.size() == size
}

#[cfg(test)]
mod tests;

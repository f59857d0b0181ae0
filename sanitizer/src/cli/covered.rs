//! Whether a process is worth a tracer: whether a file whose code it has mapped carries metadata. A file is looked at
//! once, as long as it does not change: by [a process without rights](HeaderReader). No file system is
//! waited for that a process serves: those are [asked about](AskedFiles).

use std::{collections::HashMap, fs::File, path::Path, time::Duration};

use nix::unistd::Pid;

use super::asked::{Asked, AskedFiles};
use crate::{
    kernel::{
        executed::{Executed, Search},
        foreign::{About, FileIdentity, Purpose},
    },
    reader::{HeaderReader, copier::Question},
    tracee::{self, CodeFile},
};

/// So many files are remembered.
const MOST: usize = 4096;

/// What is known of whether files carry metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// Whether one does.
    Is(bool),
    /// They cannot be found, or whoever reads them has not answered.
    Hidden,
    /// Somebody else is asked, who answers later.
    Asked,
}

impl From<Asked> for Covered {
    fn from(asked: Asked) -> Self {
        match asked {
            Asked::Answered(Some(carries)) => Self::Is(carries),
            Asked::Answered(None) => Self::Hidden,
            Asked::Pending => Self::Asked,
        }
    }
}

/// See the module.
pub struct CoveredFiles {
    purpose: Purpose,
    known: HashMap<FileIdentity, bool>,
    /// Those of the process that was looked at last.
    last: Vec<FileIdentity>,
    /// Some of that were not found, or not read, for want of descriptors or memory.
    are_short: bool,
    asked: AskedFiles,
    /// Who reads headers of files.
    reader: HeaderReader,
    /// What that has cost that was taken note of.
    taken: Duration,
}

impl CoveredFiles {
    /// In all file systems; those that processes serve are asked about. `reader`: who reads the headers of the others' files.
    #[must_use]
    pub fn everywhere(reader: HeaderReader) -> Self {
        Self::new(Purpose::Promptly, reader)
    }

    /// In those of the machine itself. What is in others is as if it was not there.
    #[must_use]
    pub fn local(reader: HeaderReader) -> Self {
        Self::new(Purpose::Local, reader)
    }

    fn new(purpose: Purpose, reader: HeaderReader) -> Self {
        Self {
            taken: Duration::ZERO,
            purpose,
            known: HashMap::new(),
            last: Vec::new(),
            are_short: false,
            asked: AskedFiles::default(),
            reader,
        }
    }

    /// Who reads headers.
    #[must_use]
    pub const fn reader(&self) -> &HeaderReader {
        &self.reader
    }

    /// Whether code that a process has mapped carries metadata. What it will map later is not known; of one that has ended nothing
    /// is.
    pub fn are_in(&mut self, pid: u32) -> Covered {
        let files = tracee::code_files(Pid::from_raw(pid.cast_signed()), self.purpose);
        self.are_short = match &files {
            Ok(files) => files.are_short,
            Err(error) => error.is_shortage(),
        };
        let files = files.unwrap_or_default();
        self.last = files.found.iter().map(|file| file.identity).collect();
        let ended = self.ended();
        let mut is_hidden = false;
        for file in &files.found {
            match self.is_covered(file) {
                Some(true) => return Covered::Is(true),
                Some(false) => {}
                None => is_hidden = true,
            }
            // Who has mapped many such files has one reader ended at a time.
            if self.ended() > ended {
                break;
            }
        }
        match files.served.first() {
            Some(first) => {
                let mapped = files.served.iter().map(|file| file.mapped).collect();
                let question = Question::Mapped(pid, mapped);
                self.asked.ask(first.device, question).into()
            }
            None if is_hidden => Covered::Hidden,
            None => Covered::Is(false),
        }
    }

    /// Whether files of the process that was looked at last are missing for want of descriptors or memory.
    #[must_use]
    pub const fn are_short(&self) -> bool {
        self.are_short
    }

    /// Whether a file that was executed was among those of the process that was looked at last, and is known to carry none: since it was told of, the process may have
    /// executed another one.
    #[must_use]
    pub fn has_seen_none_in(&self, executed: &Executed) -> bool {
        let seen = self.last.iter();
        let mut without = seen.filter(|identity| self.known.get(*identity) == Some(&false));
        without.any(|&(_, inode, size, changed, _)| executed.has(inode, size, changed))
    }

    /// Waits until it is known what was asked about. May be given up at any time.
    pub async fn answered(&mut self) {
        self.asked.answered().await;
    }

    /// Whether something that was asked about is known since the last time.
    pub fn take_news(&mut self) -> bool {
        self.asked.take_news()
    }

    /// CPU time that others have used to answer since the last time, and the time for which those were waited for in vain that read headers.
    pub fn take_cost(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.taken, self.reader.cost());
        self.asked.take_cpu() + self.taken.saturating_sub(before)
    }

    /// Nobody is asked any more: what nobody has answered by now is hidden.
    pub const fn end(&mut self) {
        self.asked.end();
    }

    /// Whether the file that was executed carries metadata. It is looked for through the process that executes it, then by its name,
    /// as its parent and some other processes see it.
    pub fn is_executed_covered(
        &mut self,
        executed: &Executed,
        pid: Option<u32>,
        others: &[u32],
    ) -> Covered {
        let file = match executed.find(pid, others, self.purpose) {
            Search::Found(file) => file,
            Search::Served(device) => {
                let question = Question::executed(executed, pid, others);
                return self.asked.ask(device, question).into();
            }
            Search::Nowhere => return Covered::Hidden,
        };
        let identity = file.about().identity();
        if let Some(&known) = self.known.get(&identity) {
            return Covered::Is(known);
        }
        let Ok(opened) = file.open() else {
            return Covered::Hidden;
        };
        match self.carries(opened, &executed.path) {
            Some(carries) => {
                self.remember(identity, carries);
                Covered::Is(carries)
            }
            None => Covered::Hidden,
        }
    }

    /// Nothing where whoever reads it has not answered.
    fn is_covered(&mut self, file: &CodeFile) -> Option<bool> {
        if let Some(&known) = self.known.get(&file.identity) {
            return Some(known);
        }
        // What cannot be read can be watched no better. That is not remembered: its process may have ended meanwhile, and others execute it.
        let open = match file.open(self.purpose) {
            Ok(open) => open,
            Err(error) => {
                self.are_short |= error.is_shortage();
                return Some(false);
            }
        };
        // By now its name may lead to another one.
        if About::of(&open).is_ok_and(|about| about.identity() == file.identity) {
            let carries = self.carries(open, file.path())?;
            self.remember(file.identity, carries);
            return Some(carries);
        }
        Some(false)
    }

    fn carries(&mut self, file: File, name: &Path) -> Option<bool> {
        let carries = self.reader.carries(file, name);
        self.are_short |= carries.is_none() && self.reader.is_short();
        carries
    }

    /// How many readers were ended by files.
    const fn ended(&self) -> u64 {
        self.reader.ended()
    }

    fn remember(&mut self, identity: FileIdentity, covered: bool) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(identity, covered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{reader::testing::header_reader, tracee::testing::Child};

    const MAIN: &str = "#include <stdio.h>\n#include <unistd.h>\n\
        int main() { puts(\"ready\"); fflush(stdout); pause(); }";
    const METADATA: &str = "-fexperimental-sanitize-metadata=atomics";

    /// Check that a program with metadata is told from one without, also where only a library of it has some; and that of a file which was executed nothing is taken for
    /// known because another one has none.
    #[test]
    fn metadata_decides() {
        let mut files = CoveredFiles::everywhere(header_reader());
        let with = Child::run(MAIN, &[METADATA]);
        with.wait_for_line("ready");
        let with = with.pid().as_raw().cast_unsigned();
        assert_eq!(files.are_in(with), Covered::Is(true));
        let without = Child::run(MAIN, &[]);
        without.wait_for_line("ready");
        let without = without.pid().as_raw().cast_unsigned();
        assert_eq!(files.are_in(without), Covered::Is(false));
        assert!(files.known.len() >= 3, "{:?}", files.known);
        let before = files.known.len();
        assert_eq!(files.are_in(without), Covered::Is(false));
        assert_eq!(files.known.len(), before);
        let [of_with, of_without] = [with, without].map(|pid| Executed::by(pid).unwrap());
        assert!(files.has_seen_none_in(&of_without));
        assert!(!files.has_seen_none_in(&of_with));
        assert_eq!(files.are_in(with), Covered::Is(true));
        assert!(!files.has_seen_none_in(&of_with) && !files.has_seen_none_in(&of_without));
    }

    /// Check that nothing is remembered of a file which cannot be opened any more, or whose name leads to another one by then: its process has ended, or has laid that
    /// there.
    #[test]
    fn what_was_not_read_is_not_known() {
        let program = Child::run(MAIN, &[METADATA]);
        program.wait_for_line("ready");
        let exe = program.exe();
        let mut files = CoveredFiles::everywhere(header_reader());
        let found = tracee::code_files(program.pid(), Purpose::Promptly).unwrap();
        let mut found = found.found.into_iter();
        let file = found.find(|file| file.path() == exe).unwrap();
        std::fs::remove_file(&exe).unwrap();
        assert_eq!(files.is_covered(&file), Some(false));
        std::fs::copy("/bin/true", &exe).unwrap();
        assert_eq!(files.is_covered(&file), Some(false));
        assert!(files.known.is_empty(), "{:?}", files.known);
        let pid = program.pid().as_raw().cast_unsigned();
        assert_eq!(files.are_in(pid), Covered::Is(true));
    }

    /// Check that of a process whose file ends whoever reads its headers one reader is ended at a look, that nothing is remembered of the file, and that it is not tried for ever, nor keeps others from being looked at.
    #[test]
    fn files_that_end_readers() {
        // "misdeed crash".
        const ENDS: &str = "-Wl,--build-id=0x6d697364656564206372617368";
        let [bad, good] = [&[METADATA, ENDS][..], &[METADATA]].map(|flags| {
            let program = Child::run(MAIN, flags);
            program.wait_for_line("ready");
            program
        });
        let [bad, good] = [&bad, &good].map(|child| child.pid().as_raw().cast_unsigned());
        for of in [CoveredFiles::local, CoveredFiles::everywhere] {
            let mut files = of(header_reader());
            for (look, ended) in [1, 2, 3, 3].into_iter().enumerate() {
                assert_eq!(files.are_in(bad), Covered::Hidden);
                assert_eq!(files.ended(), ended);
                // The libraries come behind it.
                assert_eq!(files.known.is_empty(), look < 3, "{:?}", files.known);
            }
            assert_eq!(files.are_in(good), Covered::Is(true));
            assert!(files.take_cost() > Duration::ZERO);
        }
    }
}

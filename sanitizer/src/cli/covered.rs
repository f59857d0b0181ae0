//! Whether a process is worth a tracer: whether a file whose code it has mapped carries metadata. A file is looked at
//! once, as long as it does not change.

use std::{collections::HashMap, fs::File, path::Path};

use nix::unistd::Pid;

use crate::{
    image::Image,
    kernel::executed::Executed,
    pcmeta::Metadata,
    tracee::{self, CodeFile},
};

/// So many files are remembered.
const MOST: usize = 4096;

/// See the module.
#[derive(Default)]
pub struct CoveredFiles {
    known: HashMap<tracee::FileIdentity, bool>,
}

impl CoveredFiles {
    /// Whether code that a process has mapped carries metadata. What it will map later is not known; of one that has ended nothing
    /// is.
    pub fn are_in(&mut self, pid: u32) -> bool {
        let files = tracee::code_files(Pid::from_raw(pid.cast_signed())).unwrap_or_default();
        files.iter().any(|file| self.is_covered(file))
    }

    /// Whether the file that was executed carries metadata; nothing where it cannot be found any more. It is looked for through the
    /// process that executes it, then by its name, as its parent and some other processes see it.
    pub fn is_executed_covered(
        &mut self,
        executed: &Executed,
        pid: Option<u32>,
        others: &[u32],
    ) -> Option<bool> {
        let file = executed.find(pid, others)?;
        let identity = tracee::identity(file.about());
        if let Some(&known) = self.known.get(&identity) {
            return Some(known);
        }
        let covered = carries(file.open().ok()?, &executed.path);
        self.remember(identity, covered);
        Some(covered)
    }

    fn is_covered(&mut self, file: &CodeFile) -> bool {
        if let Some(&known) = self.known.get(&file.identity) {
            return known;
        }
        // What cannot be read can be watched no better.
        let covered = file
            .open()
            .ok()
            .is_some_and(|open| carries(open, file.path()));
        self.remember(file.identity, covered);
        covered
    }

    fn remember(&mut self, identity: tracee::FileIdentity, covered: bool) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(identity, covered);
    }
}

fn carries(open: File, path: &Path) -> bool {
    Image::from_file(open, path).is_ok_and(|image| Metadata::is_carried_by(&image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::testing::Child;

    /// Check that a program with metadata is told from one without, also where only a library of it has some.
    #[test]
    fn metadata_decides() {
        const MAIN: &str = "#include <stdio.h>\n#include <unistd.h>\n\
            int main() { puts(\"ready\"); fflush(stdout); pause(); }";
        let mut files = CoveredFiles::default();
        let with = Child::run(MAIN, &["-fexperimental-sanitize-metadata=atomics"]);
        with.wait_for_line("ready");
        assert!(files.are_in(with.pid().as_raw().cast_unsigned()));
        let without = Child::run(MAIN, &[]);
        without.wait_for_line("ready");
        assert!(!files.are_in(without.pid().as_raw().cast_unsigned()));
        assert!(files.known.len() >= 3, "{:?}", files.known);
        let before = files.known.len();
        assert!(!files.are_in(without.pid().as_raw().cast_unsigned()));
        assert_eq!(files.known.len(), before);
    }
}

//! The end: who is left, and who was not watched until then.

use std::time::Instant;

use crate::cli::not_watched::Reason;
use crate::cli::programs::Carries;

use super::{Descendants, Relative};

impl Descendants {
    /// Follows nobody any more, and counts those that still wait to be watched. Whose tracers have not begun are counted yet. Tells
    /// those but the first one that carry metadata and have not ended, as far as is known.
    pub fn finish(&mut self) -> Vec<(u32, String)> {
        let now = Instant::now();
        self.take_in_all(now);
        self.files.end();
        self.look_again(now);
        while let Some(file) = self.programs.next_unknown() {
            self.count_ended(file);
        }
        let mut left = Vec::new();
        for (pid, relative) in std::mem::take(&mut self.relatives) {
            let others = [self.first, std::process::id()];
            let is_covered = relative.program.is_some_and(|file| {
                // The first one is none of those.
                let carries = self.programs.carries(file);
                if pid != self.first && matches!(carries, Carries::Unknown | Carries::Asked) {
                    let files = &mut self.files;
                    self.programs.identify(file, Some(pid), &others, files);
                }
                self.programs.is_covered(file)
            });
            if !relative.covered.unwrap_or(is_covered) {
                if relative.covered.is_none() && !relative.is_watched && self.is_hidden(&relative) {
                    let reason = Reason::Unidentified;
                    self.not_watched.count(&relative.name, reason, 1);
                }
                continue;
            }
            if !relative.is_watched {
                self.not_watched.count(&relative.name, relative.reason, 1);
            }
            if pid != self.first {
                left.push((pid, relative.name));
            }
        }
        self.agenda.clear();
        self.waiting.clear();
        self.source.end();
        left
    }

    /// Whether nobody can tell what its program carries.
    fn is_hidden(&self, relative: &Relative) -> bool {
        let file = relative.program;
        file.is_some_and(|file| self.programs.carries(file) == Carries::Hidden)
    }
}

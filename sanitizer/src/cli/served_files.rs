//! Debug files that servers have, for whoever names places in the code. They are asked for when a place needs them, and whoever asks waits for them; so it is
//! nobody who holds a thread of a program or chooses which.

use std::path::PathBuf;

use super::{
    debug_files::DebugFileArgs,
    drawing::{can_draw, show},
};
use crate::{
    debuginfod::{Fetcher, Haste, Settings, Show},
    reader::Program,
    report::clean::clean,
    symbols::{Sources, Symbolizer, served_file},
};

/// A debug file, and what it has in common with others, which it tells only once it is there.
const ROUNDS: usize = 2;

/// See the module.
#[derive(Default)]
pub struct ServedFiles {
    fetcher: Option<Fetcher>,
    cache: PathBuf,
}

impl ServedFiles {
    /// Asks the servers that the environment names, unless the options say otherwise; `shows` on a terminal how far a file has come.
    #[must_use]
    pub fn new(args: &DebugFileArgs, shows: bool) -> Self {
        let settings = Settings::of_environment().filter(|_| !args.no_debuginfod);
        let Some(settings) = settings else {
            return Self::default();
        };
        let cache = settings.cache().clone();
        let draw = |text: Option<&str>| show(text.map(clean).as_deref());
        let shown = (shows && can_draw()).then(|| Box::new(draw) as Show);
        Self {
            fetcher: Some(Fetcher::new(settings, shown, Program::default())),
            cache,
        }
    }

    /// Has what was sent before looked for beside files.
    #[must_use]
    pub fn beside(&self, sources: Sources) -> Sources {
        match self.fetcher {
            Some(_) => sources.with_served(&self.cache),
            None => sources,
        }
    }

    /// Gets what is missing for the modules at some run-time addresses, which are computed only where anything is.
    pub fn complete(&mut self, symbolizer: &Symbolizer, places: impl Fn() -> Vec<u64>) {
        let Some(fetcher) = &mut self.fetcher else {
            return;
        };
        for _ in 0..ROUNDS {
            if !symbolizer.misses(|build_id| !fetcher.is_absent(build_id)) {
                return;
            }
            for place in places() {
                let Some((module, missed)) = symbolizer.missed_at(place) else {
                    continue;
                };
                let had = missed
                    .iter()
                    .filter(|build_id| fetcher.have(build_id, module));
                if had.count() > 0 {
                    symbolizer.look_again_at(place);
                }
            }
        }
    }

    /// The debug file of a build id, for a module that is not at hand itself.
    pub fn file(&mut self, build_id: &[u8], of: &str) -> Option<PathBuf> {
        let fetcher = self.fetcher.as_mut()?;
        fetcher
            .have(build_id, of)
            .then(|| served_file(&self.cache, build_id))
    }

    /// Whether servers are asked.
    #[must_use]
    pub const fn are_asked(&self) -> bool {
        self.fetcher.is_some()
    }

    /// What makes whoever waits come to an end.
    #[must_use]
    pub fn haste(&self) -> Option<Haste> {
        self.fetcher.as_ref().map(Fetcher::haste)
    }

    /// CPU time that was used, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.fetcher.as_ref().map_or(0, Fetcher::cpu_ns)
    }

    /// Nothing more is wanted.
    pub fn end(&mut self) {
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.end();
        }
    }
}

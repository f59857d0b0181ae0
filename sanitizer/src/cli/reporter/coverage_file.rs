//! The file of covered functions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::kernel::rights::as_caller;
use crate::report::{Coverage, LookedAt, RecordFile, open_output};
use crate::symbols::Symbolizer;

/// Where `--coverage` goes.
pub(super) struct CoverageFile {
    path: PathBuf,
    file: RecordFile,
    coverage: Coverage,
    /// Processes of which not all was told.
    pub(super) cut: BTreeSet<u32>,
}

impl CoverageFile {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: as_caller(|| open_output(path))?
                .context("cannot write what --coverage asks for")?,
            coverage: Coverage::default(),
            cut: BTreeSet::new(),
        })
    }

    pub(super) fn add(&mut self, symbolizer: &Symbolizer, functions: &[LookedAt]) {
        for looked_at in functions {
            let frame = symbolizer.frame_by_symbol(looked_at.start);
            let module = frame.module.unwrap_or_default();
            let name = frame.function.unwrap_or_default();
            self.coverage.add(module, frame.offset, name, *looked_at);
        }
    }

    pub(super) fn write(&mut self) -> anyhow::Result<()> {
        let path = self.path.display();
        if !self.cut.is_empty() {
            let pids: Vec<String> = self.cut.iter().map(u32::to_string).collect();
            tracing::warn!(
                "the coverage in {path} lacks what was looked at last, a second or more, before the tracer of a process ended out of turn: of {}",
                pids.join(", ")
            );
        }
        self.coverage.write(&mut self.file).with_context(|| {
            format!("cannot write the coverage to {path}; free some space, or name another file")
        })
    }
}

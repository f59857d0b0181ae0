//! What the user has said of races beforehand: which he does not want to hear of, and which he knows.

use crate::{
    cli::args::WatchArgs,
    kernel::rights::as_caller,
    report::{Baseline, Suppressions},
};

/// See the module.
#[derive(Default)]
pub(super) struct Beforehand {
    pub(super) suppressions: Option<Suppressions>,
    pub(super) baseline: Baseline,
}

impl Beforehand {
    /// Reads the files that the options name.
    pub(super) fn read(args: &WatchArgs) -> anyhow::Result<Self> {
        let mut beforehand = Self::default();
        if let Some(path) = &args.suppressions {
            beforehand.suppressions = Some(as_caller(|| Suppressions::read(path))??);
        }
        if let Some(path) = &args.baseline {
            beforehand.baseline = as_caller(|| Baseline::read(path))??;
            tracing::info!("races of the baseline: {}", beforehand.baseline.len());
        }
        Ok(beforehand)
    }
}

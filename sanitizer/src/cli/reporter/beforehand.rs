//! What the user has said of races beforehand: which he does not want to hear of, and which he knows.

use std::time::SystemTime;

use crate::{
    cli::args::{KnownRaces, WatchArgs},
    kernel::rights::as_caller,
    report::{Baseline, Suppressions},
    store::{Access, Store, millis},
};

use super::{Reporter, stored::Stored};

/// See the module.
#[derive(Default)]
pub(super) struct Beforehand {
    pub(super) suppressions: Option<Suppressions>,
    pub(super) baseline: Baseline,
}

impl Beforehand {
    /// Reads the files that the options name, and what people have said of the races in the store that is written to.
    pub(super) fn read(args: &WatchArgs, stored: Option<&mut Stored>) -> anyhow::Result<Self> {
        let mut beforehand = Self::default();
        if let Some(path) = &args.suppressions {
            beforehand.suppressions = Some(as_caller(|| Suppressions::read(path))??);
        }
        let now = millis(SystemTime::now());
        match &args.baseline {
            Some(KnownRaces::File(path)) => {
                beforehand.baseline = as_caller(|| Baseline::read(path))??;
            }
            Some(KnownRaces::Store(address)) => {
                let mut store = Store::open(address, Access::Existing)?;
                store.add_known(&mut beforehand.baseline, true, now)?;
            }
            None => {}
        }
        if let Some(stored) = stored {
            stored.add_known(&mut beforehand.baseline, now)?;
        }
        tracing::info!("races that are known: {}", beforehand.baseline.len());
        Ok(beforehand)
    }
}

impl Reporter {
    /// Whether some races are known before the first one is found.
    #[must_use]
    pub const fn knows_races(&self) -> bool {
        self.knows_races
    }
}

//! `[learn]`: where what is learned of programs is kept, for how long, and whether other machines are told.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Places,
    places::{STORE, absolute},
    table::Table,
    within,
};
use crate::{cli::duration::parse_duration, ledger::HALF_LIFE, store::Address};

/// The name of the ledger, which is in the store's folder unless the file says otherwise; in the folder where a store usually is where that is a server's.
const LEDGER: &str = "ledger.db";
/// What stands for no ledger.
const NONE: &str = "none";
/// What [`Learn::half_life`] can be set to: what is forgotten sooner is of no use to the next process, and after a year most of a program has changed.
const HALF_LIVES: RangeInclusive<Duration> =
    Duration::from_hours(1)..=Duration::from_hours(365 * 24);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learn {
    /// The ledger; none where nothing is kept.
    pub ledger: Option<PathBuf>,
    /// The time in which half of it is forgotten.
    pub half_life: Duration,
    /// The agent sends what is learned to its collector, where it has one, and asks that what other machines have learned.
    pub share: bool,
}

impl Default for Learn {
    fn default() -> Self {
        Self::beside(&Places::default().store)
    }
}

impl Learn {
    /// As it is with this store where the file says nothing: who moves the one moves the other, into a folder that he may write to.
    fn beside(store: &Address) -> Self {
        let beside = store.path().unwrap_or(Path::new(STORE));
        Self {
            ledger: Some(beside.with_file_name(LEDGER)),
            half_life: HALF_LIFE,
            share: true,
        }
    }

    /// Reads the table; what is not said or wrong is as it is without it.
    pub(super) fn read(file: &mut Table<'_, '_>, store: &Address) -> Self {
        let mut learn = Self::beside(store);
        if let Some(mut table) = file.table("learn") {
            let ledger = table.text("ledger", |text| match text {
                NONE => Ok(None),
                path => absolute(path).map(Some),
            });
            learn.ledger = ledger.unwrap_or(learn.ledger);
            let half_life = table.text("half_life", |text| {
                let time = parse_duration(text)?;
                within(time, &HALF_LIVES, show)
            });
            learn.half_life = half_life.unwrap_or(learn.half_life);
            learn.share = table.truth("share").unwrap_or(learn.share);
            table.end();
        }
        learn
    }
}

/// In whole days where it is some, since half a year is no unit.
pub fn show(time: &Duration) -> String {
    const DAY: u64 = 24 * 3600;
    match time.as_secs() {
        seconds if seconds >= DAY && seconds.is_multiple_of(DAY) => format!("{}d", seconds / DAY),
        _ => humantime::format_duration(*time).to_string(),
    }
}

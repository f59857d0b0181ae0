//! `gwp-race races prune`.

use std::{process::ExitCode, time::Duration};

use super::{StoreArgs, list::table, now};
use crate::cli::duration::parse_duration;
use crate::cli::messages::tell;
use crate::cli::stdout::written;
use crate::store::StoredRace;

/// Forget old races of a store
///
/// Races that were not caught for this time are forgotten, with their reports, their figures and what was said of them. The file gets smaller, for which there must be room for a
/// copy of it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races prune --store sqlite:races.db --older-than 90d --keep-triaged
  gwp-race races prune --store sqlite:races.db --older-than 90d --dry-run")]
pub struct PruneArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Those not caught for this time (90d)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub older_than: Duration,

    /// Keep those that were triaged
    ///
    /// Races of which somebody has said something, or of their issues, and those that were merged stay, so that they are known when they come back.
    #[arg(long)]
    pub keep_triaged: bool,

    /// Forget nothing, list what would be forgotten
    #[arg(long)]
    pub dry_run: bool,
}

pub fn run(args: &PruneArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let now = now();
    let age = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX);
    let before = now.saturating_sub(age);
    let mut races = store.races(now)?;
    let is_triaged = |race: &StoredRace| {
        race.said.is_some() || !race.merged.is_empty() || !race.issues.is_empty()
    };
    races.retain(|race| race.last_seen < before && !(args.keep_triaged && is_triaged(race)));
    if args.dry_run {
        return written(|out| {
            out.write_all(table(&races, None).as_bytes())?;
            Ok(true)
        });
    }
    let ids: Vec<String> = races.into_iter().map(|race| race.id).collect();
    store.roll_up(now)?;
    let pruned = if args.keep_triaged {
        store.forget_untouched(&ids, before)?
    } else {
        store.forget(&ids, before)?
    };
    tell(&format!(
        "{} races and {} builds are forgotten",
        pruned.races, pruned.builds
    ));
    Ok(ExitCode::SUCCESS)
}

//! `gwp-race races prune`.

use std::{process::ExitCode, time::Duration};

use super::{StoreArgs, before, list::table, now, parse_days};
use crate::cli::duration::parse_duration;
use crate::cli::messages::tell;
use crate::cli::stdout::written;
use crate::store::{Fewer, Store, StoredRace};

/// Forget old races of a store, or their old days
///
/// Races that were not caught for this time are forgotten, with their reports, their figures and what was said of them. Of races that are still caught, days that are old may be forgotten, and sums stay. The file gets smaller, for
/// which there must be room for a copy of it. A collector (`races serve --ingest`) forgets old days by itself.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races prune --store sqlite:races.db --older-than 90d --keep-triaged
  gwp-race races prune --store sqlite:races.db --older-than 90d --dry-run
  gwp-race races prune --store sqlite:races.db --days-older-than 90d")]
pub struct PruneArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Those not caught for this time (90d)
    #[arg(long, value_name = "TIME", required_unless_present = "days_older_than", value_parser = parse_duration)]
    pub older_than: Option<Duration>,

    /// Keep sums alone of days that are so old (90d)
    ///
    /// On which days, and in which containers, races were caught is forgotten. How often a race was caught in a build, how often on a machine, and when first and last, stay known: of each thirty days that are older as a whole, a row of sightings is left for a race, build and machine. Not less than 60d.
    #[arg(long, value_name = "TIME", value_parser = parse_days)]
    pub days_older_than: Option<Duration>,

    /// Keep those that were triaged
    ///
    /// Races of which somebody has said something, or of their issues, and those that were merged stay, so that they are known when they come back.
    #[arg(long, requires = "older_than")]
    pub keep_triaged: bool,

    /// Forget nothing, list what would be forgotten
    #[arg(long)]
    pub dry_run: bool,
}

pub fn run(args: &PruneArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let now = now();
    // Nothing was before that.
    let races_before = args.older_than.map_or(0, |age| before(now, age));
    let days_before = args.days_older_than.map(|age| before(now, age));
    let races = old_races(&mut store, races_before, args.keep_triaged, now)?;
    if args.dry_run {
        if let Some(before) = days_before {
            let rows = store.condensable(before)?;
            tell(&format!(
                "of {} rows of sightings that are so old, about {} would be left",
                rows.now, rows.left
            ));
        }
        if args.older_than.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        return written(|out| {
            out.write_all(table(&races, None).as_bytes())?;
            Ok(true)
        });
    }
    let ids: Vec<String> = races.into_iter().map(|race| race.id).collect();
    let rolled_up = store.roll_up(now)?;
    let condensed = days_before
        .map(|before| store.condense(before))
        .transpose()?;
    let pruned = if args.keep_triaged {
        store.forget_untouched(&ids, races_before)?
    } else {
        store.forget(&ids, races_before)?
    };
    if args.older_than.is_some() {
        tell(&format!(
            "{} races and {} builds are forgotten",
            pruned.races, pruned.builds
        ));
    }
    if let Some(Fewer { less, .. }) = condensed {
        tell(&format!("there are {less} rows of old sightings less"));
    }
    if !rolled_up.is_whole || condensed.is_some_and(|condensed| !condensed.is_whole) {
        tell("some old rows stay for now, since somebody has them locked: try again later");
    }
    Ok(ExitCode::SUCCESS)
}

/// Races that were not caught since a time.
fn old_races(
    store: &mut Store,
    before: i64,
    keeps_triaged: bool,
    now: i64,
) -> anyhow::Result<Vec<StoredRace>> {
    let mut races = store.races(now)?;
    let is_triaged = |race: &StoredRace| {
        race.said.is_some() || !race.merged.is_empty() || !race.issues.is_empty()
    };
    races.retain(|race| race.last_seen < before && !(keeps_triaged && is_triaged(race)));
    Ok(races)
}

//! `gwp-race races import`.

use std::{collections::HashMap, path::PathBuf, process::ExitCode};

use crate::kernel::rights::as_caller;
use crate::report::{Record, build_name, read_records};
use crate::store::{Access, Address, Batch, Caught, Seen, Store, Whereabouts, is_whole, millis_of};

/// Put the races of a JSON file into a store
///
/// `run` and `attach` with --format json have written the file, here or elsewhere. The store is made if it is not there. A report that the store has already counts for nothing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races import --store sqlite:races.db races.json
  gwp-race races import --store sqlite:races.db --host web1 web1.json")]
pub struct ImportArgs {
    /// The store: sqlite:PATH, or postgres://USER@HOST/DATABASE
    ///
    /// It is made if it is not there; a database of a server must be there.
    #[arg(long, value_name = "STORE")]
    pub store: Address,

    /// The machine on which the races were caught
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub host: String,

    /// The file that --format json has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let read = as_caller(|| read_records(&args.file))??;
    let mut batch = Batch::default();
    // The figures of a run stand behind its races.
    let mut run = HashMap::new();
    for record in read.records {
        match record {
            Record::Race(race) => {
                let name = args.file.display();
                anyhow::ensure!(
                    is_whole(&race),
                    "{name}: the race {} has no time or no identity that this gwp-race knows, as an older or newer one wrote them; make the file anew",
                    race.fingerprint
                );
                run.insert(race.fingerprint.clone(), batch.caught.len());
                batch.caught.push(Caught {
                    race: *race,
                    place: Whereabouts::on(&args.host),
                    times: 1,
                    last: None,
                });
            }
            Record::Summary(summary) => {
                for sighting in &summary.sightings {
                    let index = run.get(&sighting.fingerprint);
                    if let Some(caught) = index.and_then(|index| batch.caught.get_mut(*index)) {
                        caught.times = sighting.times.max(1);
                        caught.last = millis_of(&sighting.last);
                    }
                }
                // Programs were there before what was caught in them.
                let caught = run.values().filter_map(|index| batch.caught.get(*index));
                let first = caught
                    .filter_map(|caught| millis_of(&caught.race.time))
                    .min();
                let before = || millis_of(&batch.caught.last()?.race.time);
                let at = first.or_else(before).unwrap_or_else(super::now);
                batch
                    .builds
                    .extend(summary.programs.iter().map(|program| Seen {
                        build: build_name(&program.exe, program.build_id.as_deref()),
                        exe: program.exe.clone(),
                        at,
                    }));
                run.clear();
            }
        }
    }
    let mut store = Store::open(&args.store, Access::Create)?;
    let new = store.write(&batch)?;
    drop(store);
    let of = batch.caught.len();
    crate::cli::messages::tell(&format!("{new} of {of} reports are new in {}", args.store));
    if read.is_cut {
        let name = args.file.display();
        anyhow::bail!("the last record of {name} is not complete, and was left out");
    }
    Ok(ExitCode::SUCCESS)
}

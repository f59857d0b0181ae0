//! `gwp-race races diff`.

use std::process::ExitCode;

use super::{
    StoreArgs,
    json::{Builds, Difference, Line, Listed, write_line},
    list::table,
    now,
};
use crate::cli::{list_form::ListForm, stdout::written};
use crate::store::StoredRace;

/// Compare the races of two builds
///
/// A race a line, those that were merged as one: `new` are those that were caught in the second build alone, `gone` those of the first build alone, `both` the others. A race that is gone need not be mended: how long each build was watched, and doing what, decides as much.
///
/// The exit code is 0; with --exit-code N it is N if a race is new that is neither acknowledged nor benign.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races diff --store sqlite:races.db 1f3a 9c02
  gwp-race races diff --store sqlite:races.db --exit-code 1 1f3a 9c02
  gwp-race races export --store sqlite:races.db --build 9c02 --not-in 1f3a --format github")]
pub struct DiffArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Form (--help lists them)
    ///
    /// The form of the list.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,

    /// Exit with this code if a race is new
    ///
    /// Those that are acknowledged or benign do not count.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub exit_code: Option<u8>,

    /// The first build: its build id or the beginning of it
    ///
    /// That of the executable (`readelf -n`), or `exe:PATH` where it has none.
    #[arg(value_name = "BUILD")]
    pub first: String,

    /// The second build
    #[arg(value_name = "BUILD")]
    pub second: String,
}

/// Whether a race is one for which `--exit-code` was asked.
pub fn counts(builds: Builds, race: &StoredRace) -> bool {
    builds == Builds::New && !race.state.is_accepted()
}

pub fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let builds = [&args.first, &args.second];
    let [first, second] = [store.build(builds[0])?, store.build(builds[1])?];
    let mut found: Vec<(Builds, StoredRace)> = Vec::new();
    for race in store.races(now())? {
        let is_in = |build: &str| race.seen.iter().any(|seen| seen.build.id == build);
        let builds = match (is_in(&first.id), is_in(&second.id)) {
            (true, true) => Builds::Both,
            (true, false) => Builds::Gone,
            (false, true) => Builds::New,
            (false, false) => continue,
        };
        found.push((builds, race));
    }
    found.sort_by_key(|(builds, _)| match builds {
        Builds::New => 0,
        Builds::Gone => 1,
        Builds::Both => 2,
    });
    let is_new = found.iter().any(|(builds, race)| counts(*builds, race));
    let code = written(|out| {
        match args.format {
            ListForm::Json => {
                for (builds, race) in &found {
                    let listed = Listed::of(race);
                    let builds = *builds;
                    write_line(out, &Line::Difference(Difference { builds, listed }))?;
                }
            }
            ListForm::Text => {
                let words: Vec<&str> = found.iter().map(|(builds, _)| builds.name()).collect();
                let races: Vec<StoredRace> = found.iter().map(|(_, race)| race.clone()).collect();
                out.write_all(table(&races, Some(&words)).as_bytes())?;
            }
        }
        Ok(true)
    })?;
    let asked = args.exit_code.filter(|_| is_new);
    Ok(asked.map_or(code, ExitCode::from))
}

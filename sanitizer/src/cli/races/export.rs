//! `gwp-race races export`.

use std::process::ExitCode;

use super::{StoreArgs, choice::Choice, now};
use crate::cli::export::{Export, export};

/// Write reports of a store in another form
///
/// Of each race, and of each that was merged into it, the report that was made last, in any of the forms of reports; with --format json as `run` and `attach` write it, so that `gwp-race export`, --baseline and `races import`
/// read it. Races that are acknowledged or benign are known ones there, of which a text has one line; `races show` has all of it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races export --store sqlite:races.db --format html -o races.html
  gwp-race races export --store sqlite:races.db --format sarif --state new,regressed
  gwp-race races export --store sqlite:races.db --format github --build 9c02 --not-in 1f3a
  gwp-race races export --store sqlite:races.db --format html -o race.html 43db")]
pub struct ExportArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub export: Export,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: Choice,

    /// The race: its name or its beginning (all)
    ///
    /// As for `races show`; without it all races are written.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let name = args.name.as_deref();
    let records = args.choice.records(&mut store, name, now())?;
    drop(store);
    export(&args.export, records)
}

//! `gwp-race races suppress`.

use std::process::ExitCode;

use super::{StoreArgs, choice::Choice, now};
use crate::cli::suppress::print;

/// Print suppressions of races of a store
///
/// As `gwp-race suppress` does for a file: for each race the rule that suppresses this race and no other one.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races suppress --store sqlite:races.db 43db >> my.supp
  gwp-race races suppress --store sqlite:races.db --state benign > my.supp")]
pub struct SuppressArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: Choice,

    /// The race: its name or its beginning (all)
    ///
    /// As for `races show`; without it all races are meant.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

pub fn run(args: &SuppressArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let name = args.name.as_deref();
    let records = args.choice.records(&mut store, name, now())?;
    print(&records, None, &args.store.store.to_string())
}

//! `gwp-race races`: what a store has of races, and what people say of them.

mod choice;
mod diff;
mod export;
mod hints;
mod hosts;
mod import;
mod json;
mod list;
mod log;
mod merge;
mod prune;
mod serve;
mod show;
mod speaker;
mod suppress;
mod symbolize;
#[cfg(test)]
mod tests;
mod triage;
mod until;

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use crate::cli::duration::parse_duration;
use crate::store::{Access, Address, Store, millis, page::COUNTED_DAYS};

/// See the module.
#[derive(Clone, Debug, clap::Args)]
pub struct RacesArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RacesCommand,
}

/// The commands. What each does is told by its arguments, whose first line is in the list of all.
#[derive(Clone, Debug, clap::Subcommand)]
#[allow(missing_docs)]
pub enum RacesCommand {
    List(list::ListArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Triage(triage::TriageArgs),
    Merge(merge::MergeArgs),
    Split(merge::SplitArgs),
    Log(log::LogArgs),
    Export(export::ExportArgs),
    Suppress(suppress::SuppressArgs),
    Symbolize(symbolize::SymbolizeArgs),
    Import(import::ImportArgs),
    Prune(prune::PruneArgs),
    Serve(serve::ServeArgs),
    Hosts(hosts::HostsArgs),
    Hints(hints::HintsArgs),
}

/// The store that all commands are about.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreArgs {
    /// The store: sqlite:PATH, postgres://HOST/DATABASE
    ///
    /// The store to which `run` and `attach` with the same option have written, or that `races import` has made.
    #[arg(long, value_name = "STORE")]
    pub store: Address,
}

impl StoreArgs {
    fn open(&self) -> anyhow::Result<Store> {
        Ok(Store::open(&self.store, Access::Existing)?)
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    millis(SystemTime::now())
}

/// What was before it is so old, milliseconds since 1970.
fn before(now: i64, age: Duration) -> i64 {
    now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// Reads for how long single days are kept: pages tell the last ones one by one.
fn parse_days(text: &str) -> Result<Duration, String> {
    let age = parse_duration(text)?;
    let least = Duration::from_secs(86_400 * COUNTED_DAYS.unsigned_abs());
    if age < least {
        return Err(format!(
            "pages tell the last {COUNTED_DAYS} days one by one; give {COUNTED_DAYS}d or more"
        ));
    }
    Ok(age)
}

/// Carries out the command.
///
/// # Errors
/// The store cannot be used, or has not what is wanted.
pub fn run(args: &RacesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        RacesCommand::List(args) => list::run(args),
        RacesCommand::Show(args) => show::run(args),
        RacesCommand::Diff(args) => diff::run(args),
        RacesCommand::Triage(args) => triage::run(args),
        RacesCommand::Merge(args) => merge::merge(args),
        RacesCommand::Split(args) => merge::split(args),
        RacesCommand::Log(args) => log::run(args),
        RacesCommand::Export(args) => export::run(args),
        RacesCommand::Suppress(args) => suppress::run(args),
        RacesCommand::Symbolize(args) => symbolize::run(args),
        RacesCommand::Import(args) => import::run(args),
        RacesCommand::Prune(args) => prune::run(args),
        RacesCommand::Serve(args) => serve::run(args),
        RacesCommand::Hosts(args) => hosts::run(args),
        RacesCommand::Hints(args) => hints::run(args),
    }
}

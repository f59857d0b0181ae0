//! `gwp-race fleet`: the processes of a machine, watched a few at a time.

mod agent;
pub mod config;
mod control;
mod daemon;
pub mod discovery;
mod dry_run;
mod json;
mod signals;
mod socket;
mod status;
pub mod survey;

use std::process::ExitCode;

use crate::cli::{args::FleetArgs, percent::percent, size::size, stdout::written};
use config::{Config, USUAL_PLACE, show};

/// Carries out the command.
///
/// # Errors
/// The configuration is wrong, `/proc` cannot be read, or the daemon cannot do what it is there for, or does not answer.
pub async fn run(args: &FleetArgs) -> anyhow::Result<ExitCode> {
    if let Some(command) = &args.command {
        return control::client::run(command).await;
    }
    if args.is_daemon() {
        return daemon::run(args).await;
    }
    let config = Config::read(args.config.config.as_deref())?;
    if args.check {
        let mut text = said(&config);
        let unusable = config.agent.destinations().map(|to| to.client().err());
        for error in unusable.flatten() {
            text += &format!("As it is now, the agent cannot send anything: {error}.\n");
        }
        return written(|out| {
            out.write_all(text.as_bytes())?;
            Ok(true)
        });
    }
    dry_run::run(&config, args.format)
}

/// What a configuration says, in a few lines.
fn said(config: &Config) -> String {
    let settings = &config.settings;
    let budget = &settings.budget;
    let from = match &config.path {
        Some(path) => format!("{} is right.", path.display()),
        None => format!("There is no {USUAL_PLACE}: all is as without one."),
    };
    let rules = match config.rules.0.len() {
        0 => "No rules: whatever carries metadata is watched.".to_owned(),
        1 => "1 rule.".to_owned(),
        many => format!("{many} rules, of which the first one that matches decides."),
    };
    let learned = match &config.learn.ledger {
        Some(ledger) => format!(
            "What is learned of programs is kept in {}, half of it for {}.",
            ledger.display(),
            show(&config.learn.half_life)
        ),
        None => "What is learned of programs goes with each lease.".to_owned(),
    };
    let shared = match (config.shares_by(), &config.agent.collector) {
        (Some(_), Some(collector)) => format!(
            " {} is told of it, and tells what other machines have learned.",
            collector.server.name
        ),
        _ => " Other machines are told nothing of it.".to_owned(),
    };
    let breakpoints = if settings.yields_breakpoints {
        "Another tool that takes breakpoints gets all of them."
    } else {
        "Breakpoints are shared with other tools: who comes second is refused."
    };
    let values = if settings.values { "and" } else { "but not" };
    format!(
        "{from}\n\
         Budget: {} of the machine's CPU time; of a process's {} in the long run, and {} while it is watched.\n\
         Limits: {} processes at the same time, and {} of memory for gwp-race; none where {} of the time some task waits for a processor, or {} for memory.\n\
         {breakpoints}\n\
         Reports tell places {values} the bytes that were watched.\n\
         {} of the machines take part.\n\
         Races are kept in {}; the daemon is asked by {}, and paused by {}.\n\
         {}\n\
         {learned}{shared}\n\
         {rules}\n",
        percent(budget.host),
        percent(budget.process),
        percent(budget.lease),
        settings.leases,
        size(settings.memory),
        percent(settings.pressure.cpu / 100.0),
        percent(settings.pressure.memory / 100.0),
        percent(settings.rollout),
        config.places.store,
        config.places.socket.display(),
        config.places.pause.display(),
        config.agent.said(config.places.agent.as_deref()),
    )
}

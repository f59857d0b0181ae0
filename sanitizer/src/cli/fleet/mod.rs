//! `gwp-race fleet`: how the processes of a machine are to be watched.

pub mod config;
pub mod discovery;
mod dry_run;
mod json;
pub mod survey;

use std::{path::PathBuf, process::ExitCode};

use crate::cli::{list_form::ListForm, size::show_size, stdout::written};
use config::{Config, USUAL_PLACE, percent};

/// Check how this machine's processes would be watched, and which
///
/// The configuration says which of a machine's processes are to be watched, and what that may cost. Without a file, those are all whose program or libraries carry metadata, for at most 1 % of the
/// machine's CPU time and 1 % of each process's. Nothing is watched by this command: it reads the configuration, and with --dry-run it names each process with what decides.
///
/// The file is believed only if nobody but root and whoever runs this may write it, or a folder on the way to it.
///
/// The exit code is 0, and 1 if the configuration is wrong.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race fleet --check
  gwp-race fleet --check --config ./fleet.toml
  sudo gwp-race fleet --dry-run
  sudo gwp-race fleet --dry-run --format json | jq 'select(.watch)'

The file, with what holds where it says nothing (rules: none):
  rollout = \"100%\"              # of the machines, by a hash of /etc/machine-id
  [budget]
  host = \"1%\"                   # of the machine's CPU time
  process = \"1%\"                # of a process's CPU time, in the long run
  lease = \"5%\"                  # the same, while it is watched
  [limits]
  leases = 4                    # processes that are watched at the same time
  memory = \"150MiB\"
  tables = \"32MiB\"
  [learn]
  half_life = \"7d\"
  [evidence]
  values = false                # reports tell the bytes that were watched
  [[rule]]                      # the first one that matches decides
  watch = true
  exe = \"/srv/**\"               # * stands for no /, ** for any folders
  user = \"app\"
  cgroup = \"*/prod-*\"           # * stands for anything
  [[rule]]
  watch = false
  comm = \"postgres\"")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["check", "dry_run"]))]
pub struct FleetArgs {
    /// Check the configuration and tell what it says
    #[arg(long)]
    pub check: bool,

    /// Name each process, whether it would be watched, and why
    ///
    /// What was found is told once. Processes of other users are looked into with their rights, or as root.
    #[arg(long)]
    pub dry_run: bool,

    /// The configuration (default: /etc/gwp-race/fleet.toml)
    ///
    /// Where none is named and there is none at the usual place, all is as without one.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Form of --dry-run (--help lists them)
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text, conflicts_with = "check")]
    pub format: ListForm,
}

/// Carries out the command.
///
/// # Errors
/// The configuration is wrong, or `/proc` cannot be read.
pub fn run(args: &FleetArgs) -> anyhow::Result<ExitCode> {
    let config = Config::read(args.config.as_deref())?;
    if args.check {
        let text = said(&config);
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
    let (budget, limits) = (&settings.budget, &settings.limits);
    let from = match &config.path {
        Some(path) => format!("{} is right.", path.display()),
        None => format!("There is no {USUAL_PLACE}: all is as without one."),
    };
    let rules = match config.rules.0.len() {
        0 => "No rules: whatever carries metadata is watched.".to_owned(),
        1 => "1 rule.".to_owned(),
        many => format!("{many} rules, of which the first one that matches decides."),
    };
    let values = if settings.values { "and" } else { "but not" };
    format!(
        "{from}\n\
         Budget: {} of the machine's CPU time; of a process's {} in the long run, and {} while it is watched.\n\
         Limits: {} processes at the same time, {} of memory, {} of it for tables.\n\
         What was learned counts half after {}. Reports tell places {values} the bytes that were watched.\n\
         {} of the machines take part.\n\
         {rules}\n",
        percent(budget.host),
        percent(budget.process),
        percent(budget.lease),
        limits.leases,
        show_size(limits.memory),
        show_size(limits.tables),
        humantime::format_duration(settings.half_life),
        percent(settings.rollout),
    )
}

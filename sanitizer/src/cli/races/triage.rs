//! `gwp-race races triage`.

use std::{process::ExitCode, time::Duration};

use nix::unistd::{User, getuid};

use super::{StoreArgs, now};
use crate::cli::duration::parse_duration;
use crate::store::{Named, Saying, Verdict};

/// Say what is to be thought of a race
///
/// What is said of an issue counts for all its races, also for those that are found later. Everything that was said is kept; the last word counts, be it of the race or of its issue.
///
/// Races that are acknowledged or benign are known to `run` and `attach` with --store, and count for nothing there. With --baseline and the store, all races that are there are known, but
/// for those that are fixed and come back: in builds that were seen first after this was said, or in programs without a build id.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races triage --store sqlite:races.db 43db benign --reason 'statistics only'
  gwp-race races triage --store sqlite:races.db 43db acknowledged --owner web --expires 30d
  gwp-race races triage --store sqlite:races.db i3:99ab fixed --reason 'change 4711'")]
pub struct TriageArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Why
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub reason: String,

    /// Who sees to it
    #[arg(
        long,
        value_name = "WHO",
        default_value = "",
        hide_default_value = true
    )]
    pub owner: String,

    /// After this time it is new again (30d)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub expires: Option<Duration>,

    /// The race or issue: its name or its beginning
    ///
    /// As for `races show`.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// What it is (--help lists them)
    ///
    /// What it is.
    #[arg(value_enum, value_name = "STATE")]
    pub state: Verdict,
}

pub fn run(args: &TriageArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let names = match store.named(&args.name)? {
        Named::Race(id) | Named::Issue(id) => vec![id],
        Named::Pair(_, races) => races,
    };
    let now = now();
    let expires = args.expires.map(|after| {
        let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        now.saturating_add(after)
    });
    let user = User::from_uid(getuid()).ok().flatten();
    let who = user.map_or_else(|| format!("user {}", getuid()), |user| user.name);
    for name in names {
        let saying = Saying {
            name,
            state: args.state,
            reason: args.reason.clone(),
            owner: args.owner.clone(),
            expires,
            who: who.clone(),
        };
        store.triage(&saying, now)?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `gwp-race races triage`.

use std::process::ExitCode;

use super::{
    StoreArgs, now,
    speaker::SpeakerArgs,
    until::{Until, parse_until},
};
use crate::store::{Named, Saying, Verdict};

/// Say what is to be thought of a race
///
/// What is said of an issue counts for all its races, also for those that are found later. Everything that was said is kept (`races log`); the last word counts, be it of the race or of its issue, but for words that were
/// said for a time which is over.
///
/// Races that are acknowledged or benign are known to `run` and `attach` with --store, and count for nothing there. With --baseline and the store, all races that are there are known, but
/// for those that are fixed and come back: in builds that were seen first after this was said, or in programs without a build id.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races triage --store sqlite:races.db 43db benign --reason 'statistics only'
  gwp-race races triage --store sqlite:races.db 43db acknowledged --owner web --until 30d
  gwp-race races triage --store sqlite:races.db i3:99ab fixed --reason 'change 4711'")]
pub struct TriageArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub speaker: SpeakerArgs,

    /// Who sees to it (whoever does already)
    ///
    /// An empty one, if nobody is to see to it any more.
    #[arg(long, value_name = "WHO")]
    pub owner: Option<String>,

    /// Until when this counts (30d)
    ///
    /// A time from now on, a date (2027-01-31: when that day begins in UTC), or a time by RFC 3339. After that it is as if this had not been said.
    #[arg(long, visible_alias = "expires", value_name = "END", value_parser = parse_until)]
    pub until: Option<Until>,

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
    let now = now();
    let expires = args.until.map(|until| until.end(now)).transpose()?;
    let mut store = args.store.open()?;
    let names = match store.named(&args.name)? {
        Named::Race(id) | Named::Issue(id) => vec![id],
        Named::Pair(_, races) => races,
    };
    let speaker = args.speaker.speaker();
    for name in names {
        let saying = Saying {
            name,
            state: args.state,
            reason: speaker.reason.clone(),
            owner: args.owner.clone(),
            expires,
            who: speaker.who.clone(),
        };
        store.triage(&saying, now)?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `gwp-race races merge` and `gwp-race races split`.

use std::process::ExitCode;

use super::{StoreArgs, now, speaker::SpeakerArgs};
use crate::cli::messages::tell;

/// Let a race or issue count as another one
///
/// For a race that has got another name, as code moves to another function or file, and for two issues that are one. From now on the first one counts as the second: its name means the second one
/// in all commands, both are listed and counted as one, also when the first one is caught again, and what was said of the second one holds for it. What was said of the first one itself counts no more.
///
/// Nothing that the store has is changed by this; `races split` undoes it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races merge --store sqlite:races.db 9c0f 43db --reason 'the cache has a file of its own'
  gwp-race races merge --store sqlite:races.db i3:77aa i3:99ab")]
pub struct MergeArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub speaker: SpeakerArgs,

    /// The race or issue: its name or its beginning
    ///
    /// As for `races show`. It is not to be merged into another one already.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The one as which it is to count
    #[arg(value_name = "INTO")]
    pub into: String,
}

/// Let a race or issue that was merged count as itself again
///
/// It has all that it had, what was caught by its name meanwhile, and what was said of it before; what was said meanwhile stays with the one into which it was merged. Those that were merged into it go with it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races log --store sqlite:races.db 43db
  gwp-race races split --store sqlite:races.db 9c0f --reason 'two bugs after all'")]
pub struct SplitArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub speaker: SpeakerArgs,

    /// The race or issue that was merged
    ///
    /// Its name or the beginning of it, as for `races merge`; `races show` tells which are merged into a race.
    #[arg(value_name = "NAME")]
    pub name: String,
}

pub fn merge(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let name = store.itself(&args.name)?;
    let into = store.itself(&args.into)?;
    let into = store.merge(&name, &into, &args.speaker.speaker(), now())?;
    tell(&format!("{name} counts as {into} from now on"));
    Ok(ExitCode::SUCCESS)
}

pub fn split(args: &SplitArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let name = store.itself(&args.name)?;
    let from = store.split(&name, &args.speaker.speaker(), now())?;
    tell(&format!("{name} counts as itself again, and not as {from}"));
    Ok(ExitCode::SUCCESS)
}

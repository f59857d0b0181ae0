//! Who says something of races, and why.

use clap::builder::NonEmptyStringValueParser;
use nix::unistd::{User, getuid};

use crate::store::Speaker;

/// Options of commands that add to the log.
#[derive(Clone, Debug, clap::Args)]
pub struct SpeakerArgs {
    /// Why
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub reason: String,

    /// Who says it (the user who calls)
    #[arg(long, value_name = "WHO", value_parser = NonEmptyStringValueParser::new())]
    pub by: Option<String>,
}

impl SpeakerArgs {
    pub fn speaker(&self) -> Speaker {
        let caller = || {
            let user = User::from_uid(getuid()).ok().flatten();
            user.map_or_else(|| format!("user {}", getuid()), |user| user.name)
        };
        Speaker {
            who: self.by.clone().unwrap_or_else(caller),
            reason: self.reason.clone(),
        }
    }
}

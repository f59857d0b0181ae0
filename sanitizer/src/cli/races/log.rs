//! `gwp-race races log`.

use std::{fmt::Write as _, process::ExitCode};

use super::{
    StoreArgs,
    choice::Choice,
    json::{Line, write_line},
    now,
};
use crate::cli::{list_form::ListForm, stdout::written};
use crate::report::clean::clean;
use crate::store::{Done, Entry, Merge, Named, Said, Store, rfc3339};

/// Tell who has said what of races, and when
///
/// A line each, the first first: what races and issues were said to be, and what was merged and split. Of a race, this is all that is about it, its issue, and those that count as it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races log --store sqlite:races.db
  gwp-race races log --store sqlite:races.db --format json 43db")]
pub struct LogArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Form (--help lists them)
    ///
    /// The form of the list.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,

    /// The race: its name or its beginning (all)
    ///
    /// As for `races show`; without it all is told that was ever said.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

pub fn run(args: &LogArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let log = entries(&mut store, args.name.as_deref(), now())?;
    written(|out| {
        for entry in &log {
            match args.format {
                ListForm::Json => write_line(out, &Line::logged(entry))?,
                ListForm::Text => writeln!(out, "{}", told(entry))?,
            }
        }
        Ok(true)
    })
}

/// What the log has of a race, an issue or a pair, or of all.
pub fn entries(store: &mut Store, name: Option<&str>, now: i64) -> anyhow::Result<Vec<Entry>> {
    let Some(name) = name else {
        return Ok(store.log(None)?);
    };
    // An issue may have been merged whose races are those of another one.
    let own = match store.named(name)? {
        Named::Race(id) | Named::Issue(id) => vec![id],
        Named::Pair(..) => Vec::new(),
    };
    let races = Choice::default().of_name(store, Some(name), now)?;
    let names = races.iter().flat_map(|race| race.names());
    let names: Vec<&str> = names.chain(own.iter().map(String::as_str)).collect();
    Ok(store.log(Some(&names))?)
}

/// One of it, in a line.
pub fn told(entry: &Entry) -> String {
    match entry {
        Entry::Said(said) => said_of(said),
        Entry::Merge(merge) => merged(merge),
    }
}

fn said_of(said: &Said) -> String {
    let mut text = head(said.said, &said.who);
    let _ = write!(text, " said {} of {}", said.state.name(), clean(&said.name));
    if let Some(end) = said.expires {
        let _ = write!(text, " until {}", rfc3339(end));
    }
    if !said.owner.is_empty() {
        let _ = write!(text, ", owner {}", clean(&said.owner));
    }
    with_reason(text, &said.reason)
}

fn merged(merge: &Merge) -> String {
    let mut text = head(merge.said, &merge.who);
    let word = match merge.done {
        Done::Merged => "into",
        Done::Split => "from",
    };
    let [name, target] = [&merge.name, &merge.target].map(|name| clean(name));
    let _ = write!(text, " {} {name} {word} {target}", merge.done.name());
    with_reason(text, &merge.reason)
}

fn head(at: i64, who: &str) -> String {
    format!("{}: {}", rfc3339(at), clean(who))
}

fn with_reason(text: String, reason: &str) -> String {
    if reason.is_empty() {
        text
    } else {
        format!("{text}: {}", clean(reason))
    }
}

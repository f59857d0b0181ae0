//! `gwp-race races hosts`.

use std::process::ExitCode;

use super::{
    StoreArgs,
    json::{Line, SentBy, write_line},
};
use crate::cli::{list_form::ListForm, stdout::written};
use crate::report::clean::clean;
use crate::store::{Sender, rfc3339};

/// The width of a name.
const COLUMNS: usize = 24;

/// List the machines that have sent races to a store
///
/// A machine a line, the one that was heard of last first: when that was, how many of its messages are in the store, and what is not. MISSING are messages that have not come, most of which the
/// machine has dropped; RECORDS, COUNTS and RACES are what it says that it has dropped since it began: reports of races of which another one was sent, counts of races that were caught again, and
/// first reports of races. UNKNOWN are times that were counted of races that the store did not have, as where they were pruned.
///
/// A machine that has begun to keep its messages anew has a line for each time.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races hosts --store sqlite:races.db
  gwp-race races hosts --store sqlite:races.db --format json")]
pub struct HostsArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Form (--help lists them)
    ///
    /// The form of the list.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,
}

pub fn run(args: &HostsArgs) -> anyhow::Result<ExitCode> {
    let senders = args.store.open()?.senders()?;
    written(|out| {
        match args.format {
            ListForm::Json => {
                for sender in &senders {
                    write_line(out, &Line::SentBy(SentBy::of(sender)))?;
                }
            }
            ListForm::Text => out.write_all(table(&senders).as_bytes())?,
        }
        Ok(true)
    })
}

/// Senders a line.
pub fn table(senders: &[Sender]) -> String {
    let mut text = String::new();
    let mut line = |host: &str, last: &str, figures: [String; 6]| {
        let [messages, missing, evidence, repeats, sightings, unknown] = figures;
        text.push_str(&format!(
            "{host:<COLUMNS$} {last:<20} {messages:>8} {missing:>8} {evidence:>8} {repeats:>8} {sightings:>8} {unknown:>8}\n"
        ));
    };
    if !senders.is_empty() {
        let names = [
            "MESSAGES", "MISSING", "RECORDS", "COUNTS", "RACES", "UNKNOWN",
        ];
        line("HOST", "LAST", names.map(str::to_owned));
    }
    for sender in senders {
        let host = clean(&sender.host);
        let host: String = host.chars().take(COLUMNS).collect();
        let mut last = rfc3339(sender.last_seen);
        last.truncate("2026-01-01T00:00:00".len());
        line(
            if host.is_empty() { "?" } else { &host },
            &last,
            [
                sender.messages.to_string(),
                sender.missing.to_string(),
                sender.lost.evidence.to_string(),
                sender.lost.repeats.to_string(),
                sender.lost.sightings.to_string(),
                sender.passed_over.to_string(),
            ],
        );
    }
    text
}

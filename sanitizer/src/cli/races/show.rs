//! `gwp-race races show`.

use std::{fmt::Write as _, process::ExitCode};

use super::{
    StoreArgs,
    choice::Choice,
    json::{Line, Shown, write_line},
    list::what,
    log::told,
    now,
};
use crate::cli::{list_form::ListForm, stdout::written};
use crate::report::{clean::clean, race_text};
use crate::store::{Entry, StoredRace, rfc3339};

/// Show all that is known of a race
///
/// What is to be thought of it and what was said and merged, how often it was caught, in which builds and where, and the report that was made last. Of an issue or a pair of instructions this shows each race.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races show --store sqlite:races.db 43db
  gwp-race races show --store sqlite:races.db --format json r3:43db388692c5486b58ac6a896dd0703d")]
pub struct ShowArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    /// Form (--help lists them)
    ///
    /// The form in which it is shown; `races export` writes reports in others.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,

    /// The race: its name or the beginning of it
    ///
    /// The name of a race (r3:), an issue (i3:) or a pair (p3:), or as much of it as no other name begins with, four digits or more; with the letter or without.
    #[arg(value_name = "NAME")]
    pub name: String,
}

pub fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let races = Choice::default().of_name(&mut store, Some(&args.name), now())?;
    let mut all = Vec::new();
    for race in races {
        let log = store.log(Some(&race.names()))?;
        let reports = store.evidence(&race.id, None)?;
        all.push((race, log, reports));
    }
    written(|out| {
        for (race, log, reports) in &all {
            match args.format {
                ListForm::Json => {
                    write_line(out, &Line::Shown(Shown::of(race, log, reports)))?;
                }
                ListForm::Text => {
                    out.write_all(head(race, log).as_bytes())?;
                    if let Some(last) = reports.first() {
                        out.write_all(race_text(last).as_bytes())?;
                    }
                }
            }
        }
        Ok(true)
    })
}

fn times(times: i64) -> String {
    match times {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    }
}

/// What stands above the report.
fn head(race: &StoredRace, log: &[Entry]) -> String {
    let [id, issue] = [&race.id, &race.issue].map(|name| clean(name));
    let mut text = format!("Race {id} of issue {issue}\n");
    let _ = writeln!(text, "  {}", what(race));
    let _ = writeln!(text, "  State: {}", race.state);
    for entry in log {
        let _ = writeln!(text, "    {}", told(entry));
    }
    for name in &race.merged {
        let _ = writeln!(text, "  Merged into it: {}", clean(name));
    }
    let _ = writeln!(
        text,
        "  Caught {}, from {} to {}",
        times(race.times),
        rfc3339(race.first_seen),
        rfc3339(race.last_seen)
    );
    for seen in &race.seen {
        let _ = write!(
            text,
            "    {} in build {}",
            times(seen.times),
            clean(&seen.build.id)
        );
        if !seen.build.is_path() {
            let _ = write!(text, " of {}", clean(&seen.build.exe));
        }
        let place = &seen.place;
        for (word, name) in [
            ("on", &place.host),
            ("in", &place.cgroup),
            ("in container", &place.container),
        ] {
            if !name.is_empty() {
                let _ = write!(text, ", {word} {}", clean(name));
            }
        }
        text.push('\n');
    }
    text
}

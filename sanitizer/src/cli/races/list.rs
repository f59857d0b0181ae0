//! `gwp-race races list`.

use std::process::ExitCode;

use super::{
    StoreArgs,
    choice::Choice,
    json::{Line, Listed, write_line},
    now,
};
use crate::cli::{list_form::ListForm, stdout::written};
use crate::report::clean::clean;
use crate::store::{StoredRace, day};

/// Digits of a name that are shown, if no other one begins with them.
const DIGITS: usize = 8;
/// The width of a line.
const COLUMNS: usize = 100;

/// List the races of a store
///
/// A race a line, those that were caught last first: the beginning of its name, which the other commands take, what is to be thought of it, how often and when it was caught, and the functions
/// of both sides with the variable.
///
/// The exit code is 0; with --exit-code N it is N if a race is listed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races list --store sqlite:races.db
  gwp-race races list --store sqlite:races.db --state new,regressed --exit-code 1
  gwp-race races list --store sqlite:races.db --state acknowledged --owner web
  gwp-race races list --store sqlite:races.db --since 7d --text cache --format json")]
pub struct ListArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: Choice,

    /// Form (--help lists them)
    ///
    /// The form of the list.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ListForm::Text)]
    pub format: ListForm,

    /// Exit with this code if a race is listed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub exit_code: Option<u8>,
}

pub fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open()?;
    let races = args.choice.of(&mut store, now())?;
    let code = written(|out| {
        match args.format {
            ListForm::Json => {
                for race in &races {
                    write_line(out, &Line::Listed(Listed::of(race)))?;
                }
            }
            ListForm::Text => out.write_all(table(&races, None).as_bytes())?,
        }
        Ok(true)
    })?;
    let asked = args.exit_code.filter(|_| !races.is_empty());
    Ok(asked.map_or(code, ExitCode::from))
}

/// Races a line, with a word before each where there are any.
pub fn table(races: &[StoredRace], words: Option<&[&str]>) -> String {
    let cleaned: Vec<_> = races.iter().map(|race| clean(&race.id)).collect();
    let ids: Vec<&str> = cleaned.iter().map(AsRef::as_ref).collect();
    let length = shortest(&ids);
    let mut text = String::new();
    let mut line = |word: &str, race: [&str; 4], what: &str| {
        let [id, state, times, last] = race;
        let word = words.map_or_else(String::new, |_| format!("{word:<6}"));
        let head = format!("{word}{id:<length$}  {state:<12}  {times:>6}  {last:<10}  ");
        let room = COLUMNS.saturating_sub(head.chars().count());
        text.push_str(&head);
        text.push_str(&shortened(what, room));
        text.push('\n');
    };
    if !races.is_empty() {
        line(
            "IN",
            ["RACE", "STATE", "TIMES", "LAST"],
            "FUNCTIONS (VARIABLE)",
        );
    }
    for (index, (race, id)) in races.iter().zip(&ids).enumerate() {
        let word = words.and_then(|words| words.get(index).copied());
        let id = id.get(..length).unwrap_or(id);
        let times = race.times.to_string();
        let last = day(race.last_seen);
        let what = what(race);
        line(
            word.unwrap_or_default(),
            [id, race.state.name(), &times, &last],
            &what,
        );
    }
    text
}

/// The functions and the variable.
pub fn what(race: &StoredRace) -> String {
    let functions = clean(&race.functions);
    match &*race.variable {
        "" => functions.into_owned(),
        variable => format!("{functions} ({})", clean(variable)),
    }
}

/// How many characters of names tell them from each other.
fn shortest(ids: &[&str]) -> usize {
    let prefix = "r3:".len();
    let longest = ids.iter().map(|id| id.len()).max().unwrap_or_default();
    let is_enough = |length: &usize| {
        let mut cut: Vec<_> = ids.iter().map(|id| id.get(..*length)).collect();
        cut.sort_unstable();
        cut.windows(2).all(|two| two.first() != two.last())
    };
    (prefix + DIGITS..longest)
        .find(is_enough)
        .unwrap_or(longest.max(prefix + DIGITS))
}

fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(room.saturating_sub(2)).collect();
    short.push_str("..");
    short
}

//! The list of races, some at a time.

use super::select::{RACES, STATE, Select};
use crate::store::{
    Store,
    connect::Connection,
    error::StoreError,
    state::State,
    text::key,
    time::{day_of, hour},
};

/// Days that a sparkline shows, with today.
pub(crate) const DAYS: i64 = 14;

/// What all of which must be true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In one of these states; in any where there is none.
    pub states: Vec<State>,
    /// Caught in the build of this name.
    pub build: Option<String>,
    /// Caught on this machine.
    pub host: Option<String>,
    /// Of this issue.
    pub issue: Option<String>,
    /// This text is in functions, variable or places, without regard to capitals.
    pub text: Option<String>,
}

/// A place in the list: behind the race of this name, which was caught last then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, milliseconds since 1970.
    pub last_seen: i64,
    /// Its name.
    pub race: String,
}

/// A race of the list, with all that count as it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub id: String,
    /// That of the issue as which its own one counts.
    pub issue: String,
    /// The functions of both sides.
    pub functions: String,
    /// The variable; may be empty.
    pub variable: String,
    /// Function, file and line of both sides.
    pub places: String,
    /// When it was caught first, milliseconds since 1970.
    pub first_seen: i64,
    /// When it was caught last, the same.
    pub last_seen: i64,
    /// How often it was caught.
    pub times: i64,
    /// In how many builds.
    pub builds: i64,
    /// On how many machines that are known.
    pub hosts: i64,
    /// What is to be thought of it.
    pub state: State,
    /// How often it was caught on each of the last 14 days, today last.
    pub days: Vec<i64>,
}

/// A part of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The races, those that were caught last first.
    pub races: Vec<Row>,
    /// Where the next part begins.
    pub next: Option<Mark>,
    /// Races that the store has, those that count as others aside.
    pub all: i64,
}

pub(super) type RaceRow = (
    String,
    String,
    String,
    String,
    String,
    i64,
    i64,
    i64,
    i64,
    i64,
    String,
);

/// The columns of a `RaceRow`, of `race` and `issue`, with its state from `chosen`. Whoever sends races may have names of any length: more than a thousand characters of them are not read.
pub(super) const COLUMNS: &str = "race.id, race.issue_as, substr(issue.functions, 1, 1000), substr(race.variable, 1, 1000), substr(race.places, 1, 1000), race.first_caught, race.last_caught,
    race.times, race.builds, race.hosts, chosen.state";

/// Whose columns those are.
pub(super) const JOINED: &str =
    "AS chosen JOIN race ON race.id = chosen.id JOIN issue ON issue.id = race.issue";

impl Store {
    /// `most` races from a place of the list on.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(
        &mut self,
        filter: &Filter,
        from: Option<&Mark>,
        most: usize,
        now: i64,
    ) -> Result<List, StoreError> {
        self.with(async |connection| list(connection, filter, from, most, now).await)
    }
}

async fn list(
    connection: &mut Connection,
    filter: &Filter,
    from: Option<&Mark>,
    most: usize,
    now: i64,
) -> sqlx::Result<List> {
    let mut rows: Vec<RaceRow> = statement(filter, from, most, now).rows(connection).await?;
    let is_more = rows.len() > most;
    rows.truncate(most);
    let mut races = Vec::with_capacity(rows.len());
    for row in rows {
        races.push(with_days(connection, row, now).await?);
    }
    let last = races.last().filter(|_| is_more);
    Ok(List {
        next: last.map(|last| Mark {
            last_seen: last.last_seen,
            race: last.id.clone(),
        }),
        races,
        all: sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM race) - (SELECT count(*) FROM race WHERE counts_as <> id)",
        )
        .fetch_one(connection)
        .await?,
    })
}

/// One race more than is shown tells that there are more.
fn statement(filter: &Filter, from: Option<&Mark>, most: usize, now: i64) -> Select {
    let mut select = Select::at(now, String::new());
    // By themselves: an engine that knows of others how many races they have guesses wrong where this one has few or none, and looks at all races.
    for (number, (list, _, value)) in named(filter).enumerate() {
        select.push(if number == 0 { "WITH " } else { ", " });
        select.text(list, &value);
    }
    select.push(&format!(
        " SELECT {COLUMNS} FROM (SELECT race.id AS id, {STATE} AS state FROM {RACES}"
    ));
    if let Some(mark) = from {
        select.number(" AND race.last_caught <= ?", mark.last_seen);
        select.number(" AND (race.last_caught < ?", mark.last_seen);
        select.text(" OR race.id > ?)", &mark.race);
    }
    for (_, condition, _) in named(filter) {
        select.push(condition);
    }
    if let Some(issue) = &filter.issue {
        select.text(" AND race.issue_as = ?", issue);
    }
    if let Some(text) = &filter.text {
        select.text(
            " AND race.search_text LIKE lower(?) ESCAPE '!'",
            &pattern(text),
        );
    }
    let are_judged = !filter.states.is_empty() && !filter.states.contains(&State::New);
    if are_judged {
        select.push(" AND race.triage > 0");
    }
    if !filter.states.is_empty() {
        // Most are new since nothing was said of them, which planners of queries know.
        let is_new = if are_judged {
            ""
        } else {
            "race.triage = 0 OR "
        };
        select.push(&format!(" AND ({is_new}{STATE} IN ("));
        for (index, state) in filter.states.iter().enumerate() {
            select.text(if index == 0 { "?" } else { ", ?" }, state.name());
        }
        select.push("))");
    }
    let is_rare = are_judged
        || filter.build.is_some()
        || filter.host.is_some()
        || filter.issue.is_some()
        || filter.text.is_some();
    // What few races have is looked for before they are sorted: in the order of the index, each that has it not would be fetched by itself.
    select.push(if is_rare {
        " ORDER BY race.last_caught + 0 DESC, race.id"
    } else {
        " ORDER BY race.last_caught DESC, race.id"
    });
    let most = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    select.number(" LIMIT ?", most);
    select.push(&format!(
        ") {JOINED} ORDER BY race.last_caught DESC, race.id"
    ));
    select
}

/// The lists of the races of a build or of a machine, as they are asked for; the condition that a race is in one; and the build or machine.
fn named(filter: &Filter) -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let build = filter.build.iter().map(|build| {
        (
            "of_build (race) AS MATERIALIZED (SELECT race FROM race_build WHERE build = ?)",
            " AND race.id IN (SELECT race FROM of_build)",
            build.clone(),
        )
    });
    let host = filter.host.iter().map(|host| {
        (
            "of_host (race) AS MATERIALIZED (SELECT race FROM race_host WHERE host = ?)",
            " AND race.id IN (SELECT race FROM of_host)",
            key(host),
        )
    });
    build.chain(host)
}

/// What LIKE takes for this text somewhere.
fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// A race of the store, and how often it was caught of late.
pub(super) async fn with_days(
    connection: &mut Connection,
    row: RaceRow,
    now: i64,
) -> sqlx::Result<Row> {
    let (
        id,
        issue,
        functions,
        variable,
        places,
        first_seen,
        last_seen,
        times,
        builds,
        hosts,
        state,
    ) = row;
    let state = State::parse(&state)
        .ok_or_else(|| sqlx::Error::Decode(format!("{state} is no state").into()))?;
    let counted: Vec<(i64, i64)> =
        sqlx::query_as("SELECT day, times FROM race_day WHERE race = $1 AND day > $2")
            .bind(&id)
            .bind(day_of(hour(now)) - DAYS)
            .fetch_all(connection)
            .await?;
    Ok(Row {
        days: lately(counted.into_iter(), now),
        id,
        issue,
        functions,
        variable,
        places,
        first_seen,
        last_seen,
        times,
        builds,
        hosts,
        state,
    })
}

/// Sums of the last days from numbers of days with counts. What a clock that is ahead has counted is of today.
pub(super) fn lately(counted: impl Iterator<Item = (i64, i64)>, now: i64) -> Vec<i64> {
    let first = day_of(hour(now)) + 1 - DAYS;
    let mut days = vec![0_i64; usize::try_from(DAYS).unwrap_or_default()];
    for (day, times) in counted.filter(|(day, _)| *day >= first) {
        let index = usize::try_from(day.saturating_sub(first)).unwrap_or(usize::MAX);
        let index = index.min(days.len().saturating_sub(1));
        if let Some(sum) = days.get_mut(index) {
            *sum = sum.saturating_add(times);
        }
    }
    days
}

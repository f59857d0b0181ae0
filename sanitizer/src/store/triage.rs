//! What people say of races and issues. Everything is kept; the last word counts, be it of the race or of its issue, but for words that were said for a time which is over.

use std::collections::HashMap;

use super::{
    SCHEMA, Store,
    alias::Aliases,
    connect::{Connection, begin},
    error::StoreError,
    number, summary,
    text::text,
    verdict::Verdict,
};

/// What somebody says.
#[derive(Clone, Debug)]
pub struct Saying {
    /// Of the race or issue of this name.
    pub name: String,
    /// What it is.
    pub state: Verdict,
    /// Why; may be empty.
    pub reason: String,
    /// Who sees to it; nobody where it is empty, whoever does already where it is not said.
    pub owner: Option<String>,
    /// Until when, milliseconds since 1970.
    pub expires: Option<i64>,
    /// Who says it.
    pub who: String,
}

/// What somebody has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Counts all that was said.
    pub number: i64,
    /// Of the race or issue of this name.
    pub name: String,
    /// What it is.
    pub state: Verdict,
    /// Why; may be empty.
    pub reason: String,
    /// Who sees to it; may be empty.
    pub owner: String,
    /// Until when, milliseconds since 1970.
    pub expires: Option<i64>,
    /// Who has said it.
    pub who: String,
    /// When, milliseconds since 1970.
    pub said: i64,
}

impl Said {
    /// Whether it was for a time only, which is over.
    #[must_use]
    pub fn is_over(&self, now: i64) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Of several words the one counts for which this is greatest.
    pub(super) fn weight(&self, now: i64) -> (bool, i64) {
        (!self.is_over(now), self.number)
    }
}

type Row = (
    i64,
    String,
    String,
    String,
    String,
    Option<i64>,
    String,
    i64,
);

impl Store {
    /// Takes down what somebody says, at the time `now`.
    ///
    /// # Errors
    /// The store cannot be written to.
    pub fn triage(&mut self, saying: &Saying, now: i64) -> Result<(), StoreError> {
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            let owner = match &saying.owner {
                Some(owner) => owner.clone(),
                None => owner(&mut all, &saying.name, now).await?,
            };
            let said = Said {
                number: number::next(&mut all).await?,
                name: saying.name.clone(),
                state: saying.state,
                reason: saying.reason.clone(),
                owner,
                expires: saying.expires,
                who: saying.who.clone(),
                said: now,
            };
            take_down(&mut all, &said).await?;
            all.commit().await
        })
    }

    /// All that was said of a race or an issue, the first first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn said(&mut self, names: &[&str]) -> Result<Vec<Said>, StoreError> {
        let mut all = self.with(async |connection| said(connection).await)?;
        all.retain(|said| names.contains(&&*said.name));
        Ok(all)
    }
}

/// Adds what somebody has said.
pub(super) async fn take_down(connection: &mut Connection, said: &Said) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO triage (number, name, state, reason, owner, expires, who, said)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(said.number)
    .bind(&said.name)
    .bind(said.state.name())
    .bind(text(&said.reason))
    .bind(text(&said.owner))
    .bind(said.expires)
    .bind(text(&said.who))
    .bind(said.said)
    .execute(&mut *connection)
    .await?;
    summary::say(connection, &said.name).await
}

/// All that was said, the first first.
pub(super) async fn said(connection: &mut Connection) -> sqlx::Result<Vec<Said>> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT number, name, state, reason, owner, expires, who, said FROM triage ORDER BY number",
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(of).collect()
}

/// What was said of two names last, the last first, `most` of it.
pub(super) async fn last_of(
    connection: &mut Connection,
    names: [&str; 2],
    most: i64,
) -> sqlx::Result<Vec<Said>> {
    let [one, other] = names;
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT number, name, state, reason, owner, expires, who, said FROM triage WHERE name IN ($1, $2) ORDER BY number DESC LIMIT $3",
    )
    .bind(one)
    .bind(other)
    .bind(most)
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(of).collect()
}

fn of(row: Row) -> sqlx::Result<Said> {
    let (number, name, state, reason, owner, expires, who, said) = row;
    let state = Verdict::parse(&state)
        .ok_or_else(|| sqlx::Error::Decode(format!("{state} is no state").into()))?;
    Ok(Said {
        number,
        name,
        state,
        reason,
        owner,
        expires,
        who,
        said,
    })
}

/// Who sees to a race or issue.
async fn owner(connection: &mut Connection, name: &str, now: i64) -> sqlx::Result<String> {
    let issue: Option<String> = sqlx::query_scalar("SELECT issue FROM race WHERE id = $1")
        .bind(name)
        .fetch_optional(&mut *connection)
        .await?;
    let aliases = Aliases::read(&mut *connection).await?;
    let issue = issue.as_deref().map(|issue| aliases.counts_as(issue));
    let last = last(said(connection).await?, now);
    let names = [Some(name), issue].into_iter().flatten();
    let words = names.filter_map(|name| last.get(name));
    let word = words.max_by_key(|said| said.weight(now));
    let word = word.filter(|said| !said.is_over(now));
    Ok(word.map_or_else(String::new, |said| said.owner.clone()))
}

/// The word on each name that counts: the last one that is not over, or the last one where all are.
pub(super) fn last(all: Vec<Said>, now: i64) -> HashMap<String, Said> {
    let mut last: HashMap<String, Said> = HashMap::new();
    for said in all {
        let before = last.get(&said.name);
        if before.is_none_or(|before| before.weight(now) < said.weight(now)) {
            last.insert(said.name.clone(), said);
        }
    }
    last
}

//! What people say of races and issues. Everything is kept; the last word counts, be it of the race or of its issue.

use std::collections::HashMap;

use super::{
    Store,
    connect::{Connection, begin},
    error::StoreError,
    summary,
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
    /// Who sees to it; may be empty.
    pub owner: String,
    /// Until when, milliseconds since 1970.
    pub expires: Option<i64>,
    /// Who says it.
    pub who: String,
}

/// What somebody has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Counts all of them.
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
            let mut all = begin(connection).await?;
            let number: i64 = sqlx::query_scalar("SELECT coalesce(max(number), 0) + 1 FROM triage")
                .fetch_one(&mut *all)
                .await?;
            let said = Said {
                number,
                name: saying.name.clone(),
                state: saying.state,
                reason: saying.reason.clone(),
                owner: saying.owner.clone(),
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
    .bind(&said.reason)
    .bind(&said.owner)
    .bind(said.expires)
    .bind(&said.who)
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

/// The last word on each name.
pub(super) fn last(all: Vec<Said>) -> HashMap<String, Said> {
    all.into_iter()
        .map(|said| (said.name.clone(), said))
        .collect()
}

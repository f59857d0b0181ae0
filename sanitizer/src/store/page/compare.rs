//! The races of two builds.

use super::{
    list::{COLUMNS, JOINED, RaceRow, Row, with_days},
    select::{RACES, STATE, Select},
};
use crate::store::{Store, connect::Connection, error::StoreError};

/// Races that two builds have, or one of them.
#[derive(Clone, Debug)]
pub struct Compared {
    /// In the second alone.
    pub new: Difference,
    /// In the first alone.
    pub gone: Difference,
    /// In both.
    pub both: Difference,
}

/// Races of one kind.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The first ones, those that were caught last first.
    pub races: Vec<Row>,
    /// How many there are.
    pub all: i64,
}

impl Store {
    /// Compares the races of two builds by their names; `most` of each kind.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn compared(
        &mut self,
        [first, second]: [&str; 2],
        most: usize,
        now: i64,
    ) -> Result<Compared, StoreError> {
        self.with(async |connection| {
            let without = Where::Without;
            Ok(Compared {
                new: difference(connection, second, without, first, most, now).await?,
                gone: difference(connection, first, without, second, most, now).await?,
                both: difference(connection, first, Where::With, second, most, now).await?,
            })
        })
    }
}

/// Whether the other build has the races, too.
#[derive(Clone, Copy)]
enum Where {
    With,
    Without,
}

impl Where {
    /// Of those that a build has, in `own`.
    fn add_to(self, select: &mut Select, build: &str, other: &str) {
        select.text(" race_build AS own WHERE own.build = ?", build);
        let and = match self {
            Self::With => {
                " AND EXISTS (SELECT 1 FROM race_build WHERE race_build.race = own.race AND race_build.build = ?)"
            }
            Self::Without => {
                " AND NOT EXISTS (SELECT 1 FROM race_build WHERE race_build.race = own.race AND race_build.build = ?)"
            }
        };
        select.text(and, other);
    }
}

async fn difference(
    connection: &mut Connection,
    build: &str,
    how: Where,
    other: &str,
    most: usize,
    now: i64,
) -> sqlx::Result<Difference> {
    let mut count = Select::new("SELECT count(*) FROM");
    how.add_to(&mut count, build, other);
    let all: Vec<(i64,)> = count.rows(&mut *connection).await?;
    let mut select = Select::at(
        now,
        format!(
            "SELECT {COLUMNS} FROM (SELECT race.id AS id, {STATE} AS state FROM {RACES} AND race.id IN (SELECT own.race FROM"
        ),
    );
    how.add_to(&mut select, build, other);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    select.number(
        ") ORDER BY race.last_caught + 0 DESC, race.id LIMIT ?",
        most,
    );
    select.push(&format!(
        ") {JOINED} ORDER BY race.last_caught DESC, race.id"
    ));
    let rows: Vec<RaceRow> = select.rows(&mut *connection).await?;
    let mut races = Vec::with_capacity(rows.len());
    for row in rows {
        races.push(with_days(connection, row, now).await?);
    }
    Ok(Difference {
        races,
        all: all.first().map_or(0, |(all,)| *all),
    })
}

//! A statement whose conditions depend on what is asked. Its text is made of ours alone; all that is asked is bound.

use sqlx::{AssertSqlSafe, FromRow};

use crate::store::{connect::Connection, text::text};

type Engine = <Connection as sqlx::Connection>::Database;
type EngineRow = <Engine as sqlx::Database>::Row;

/// What is to be thought of a race, as `State::of` has it, at the time `$1`; for `race` with `word`, the one that counts of all that was said.
pub(super) const STATE: &str = "CASE
    WHEN word.number IS NULL OR word.expires <= $1 THEN 'new'
    WHEN word.state <> 'fixed' THEN word.state
    WHEN EXISTS (
        SELECT 1 FROM race_build JOIN build ON build.id = race_build.build
        WHERE race_build.race = race.id AND word.said <
            CASE WHEN substr(build.id, 1, 4) <> 'exe:' THEN build.first_seen
                 WHEN race_build.last_hour = race.last_caught / 3600000 THEN race.last_caught
                 ELSE race_build.last_hour * 3600000 END
    ) THEN 'regressed'
    ELSE 'fixed' END";

/// The races of which `STATE` tells: those that count as themselves. Of all that was said of one or its issue that counts which was said last and is not over, as `Said::weight` has it. It is looked for where something was said. That few races count as others is known of the index of these, as planners of queries see it.
pub(super) const RACES: &str =
    "race LEFT JOIN triage AS word ON word.number = CASE WHEN race.triage = 0 THEN NULL ELSE (
        SELECT said.number FROM triage AS said WHERE said.name IN (race.id, race.issue_as)
        ORDER BY CASE WHEN said.expires <= $1 THEN 1 ELSE 0 END, said.number DESC LIMIT 1
    ) END WHERE race.id NOT IN (SELECT other.id FROM race AS other WHERE other.counts_as <> other.id)";

enum Value {
    Number(i64),
    Text(String),
}

/// See the module.
pub(super) struct Select {
    sql: String,
    values: Vec<Value>,
}

impl Select {
    pub(super) fn new(sql: &'static str) -> Self {
        Self {
            sql: sql.to_owned(),
            values: Vec::new(),
        }
    }

    /// `$1` is a time, for `STATE`.
    pub(super) fn at(now: i64, sql: String) -> Self {
        Self {
            sql,
            values: vec![Value::Number(now)],
        }
    }

    pub(super) fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Adds `sql`, and in it the number of a parameter for each `?`, all of which stand for this text.
    pub(super) fn text(&mut self, sql: &'static str, value: &str) {
        self.values.push(Value::Text(text(value)));
        self.numbered(sql);
    }

    /// The same with a number.
    pub(super) fn number(&mut self, sql: &'static str, value: i64) {
        self.values.push(Value::Number(value));
        self.numbered(sql);
    }

    fn numbered(&mut self, sql: &'static str) {
        let parameter = format!("${}", self.values.len());
        self.sql.push_str(&sql.replace('?', &parameter));
    }

    pub(super) async fn rows<T>(self, connection: &mut Connection) -> sqlx::Result<Vec<T>>
    where
        T: for<'a> FromRow<'a, EngineRow> + Send + Unpin,
    {
        let mut query = sqlx::query_as::<Engine, T>(AssertSqlSafe(self.sql));
        for value in self.values {
            query = match value {
                Value::Number(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
            };
        }
        query.fetch_all(connection).await
    }
}

//! What an outbox knows of itself.

use sqlx::{AssertSqlSafe, Row as _};

use super::item::Class;
use crate::{delivery::Lost, store::connect::Connection};

/// See the module. Read at the beginning of a transaction, and written at its end. Each number is a column of its name.
#[derive(Default)]
pub(super) struct State {
    /// Of all messages of this outbox, 32 hexadecimal digits.
    pub(super) sender: String,
    /// The number of the next item.
    pub(super) item: i64,
    /// The number of the next message.
    pub(super) sequence: i64,
    /// Of items and messages.
    pub(super) bytes: i64,
    /// What was dropped since the outbox was made, by its class.
    evidence: i64,
    repeats: i64,
    sightings: i64,
    /// The same of what was learned: functions.
    pub(super) learning: i64,
    /// Messages that were taken.
    pub(super) taken: i64,
    /// Messages that never will be.
    pub(super) refused: i64,
    /// Since when is counted, milliseconds since 1970.
    pub(super) began: i64,
    /// Races of builds that were new ones.
    pub(super) races: i64,
    /// How often races were caught.
    pub(super) caught: i64,
    /// Events that were taken.
    pub(super) events_taken: i64,
    /// Events that never will be.
    pub(super) events_refused: i64,
    /// Events for which there was no room.
    pub(super) events_lost: i64,
    /// Messages that nobody was there for any more.
    pub(super) messages_lost: i64,
    /// All that nobody was there for any more: items, messages, events.
    pub(super) let_go: i64,
}

/// Columns, with the numbers that are theirs.
macro_rules! numbers {
    ($state:expr; $($name:ident)+) => {
        [$((stringify!($name), &mut $state.$name)),+]
    };
}

impl State {
    /// All numbers, by their columns, which are named nowhere else.
    fn numbers(&mut self) -> [(&'static str, &mut i64); 17] {
        numbers!(self; item sequence bytes evidence repeats sightings learning taken refused began races caught events_taken events_refused events_lost messages_lost let_go)
    }

    pub(super) async fn load(connection: &mut Connection) -> sqlx::Result<Self> {
        let mut state = Self::default();
        let mut numbers = state.numbers();
        let columns: String = numbers
            .iter()
            .map(|(name, _)| format!("{name}, "))
            .collect();
        let row = sqlx::query(AssertSqlSafe(format!("SELECT {columns}sender FROM state")));
        let row = row.fetch_one(connection).await?;
        for (column, number) in &mut numbers {
            **number = row.try_get(*column)?;
        }
        state.sender = row.try_get("sender")?;
        Ok(state)
    }

    pub(super) async fn save(&mut self, connection: &mut Connection) -> sqlx::Result<()> {
        let numbers = self.numbers();
        let columns = (1..).zip(&numbers);
        let columns: Vec<String> = columns
            .map(|(nth, (name, _))| format!("{name} = ${nth}"))
            .collect();
        let sql = format!("UPDATE state SET {}", columns.join(", "));
        let mut update = sqlx::query(AssertSqlSafe(sql));
        for (_, number) in numbers {
            update = update.bind(*number);
        }
        update.execute(connection).await.map(drop)
    }

    /// What was dropped since the outbox was made.
    pub(super) const fn lost(&self) -> Lost {
        Lost {
            evidence: self.evidence.cast_unsigned(),
            repeats: self.repeats.cast_unsigned(),
            sightings: self.sightings.cast_unsigned(),
        }
    }

    /// A race was caught so often.
    pub(super) fn count(&mut self, times: u64) {
        let times = i64::try_from(times).unwrap_or(i64::MAX);
        self.caught = self.caught.saturating_add(times);
    }

    /// Something of a class is dropped.
    pub(super) fn lose(&mut self, class: Class, weight: i64) {
        let lost = match class {
            Class::Learning => &mut self.learning,
            Class::Evidence => &mut self.evidence,
            Class::Repeats => &mut self.repeats,
            Class::Sightings => &mut self.sightings,
        };
        *lost = lost.saturating_add(weight.max(0));
    }
}

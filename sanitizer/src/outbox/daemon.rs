//! What a daemon tells beside what it finds: how much it watches, and what that costs. It counts from when it was started; an outbox adds up what all daemons of the machine have counted.

use std::{collections::BTreeMap, time::SystemTime};

use serde::{Deserialize, Serialize};

use super::{Outbox, SCHEMA};
use crate::store::{
    StoreError,
    connect::{Connection, begin},
    millis,
};

/// Daemons that are kept apart: the last ones. What was told before is a sum.
const MOST_DAEMONS: i64 = 8;
/// Of a daemon that has told nothing for so long, milliseconds, it is not known what it does now: they tell it each minute.
const SILENCE: i64 = 180_000;

/// The words for why a lease has ended, as docs/fleet.md explains them.
pub const ENDINGS: [&str; 17] = [
    "breakpoints",
    "daemon-ends",
    "displaced",
    "executes",
    "failed",
    "fatal-signal",
    "ignored",
    "left-alone",
    "longest",
    "no-slot",
    "paused",
    "pressure",
    "process-ended",
    "quiet",
    "spent",
    "tracer-died",
    "unknown",
];

/// What a daemon has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DaemonFigures {
    /// Leases that have begun; controls are none.
    pub leases_begun: u64,
    /// Those that have ended, by why, in a word (docs/fleet.md).
    pub leases_ended: BTreeMap<String, u64>,
    /// Stalls of all leases.
    pub stalls: u64,
    /// What leases have cost, ns: CPU time, and time for which threads stood.
    pub cost_ns: u64,
    /// CPU time that was used otherwise, ns.
    pub overhead_ns: u64,
    /// What it does now; nothing where that is not known.
    pub now: Option<DaemonNow>,
}

/// What a daemon does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DaemonNow {
    /// Processes that may be watched: each has a purse.
    pub processes: u64,
    /// Those of them that have a lease.
    pub leases: u64,
    /// No lease begins: somebody has paused it, or the machine is short of something (`held` of `fleet status`).
    pub is_held: bool,
}

impl DaemonFigures {
    /// Adds what another one has done.
    fn add(&mut self, other: &Self) {
        let add = |one: &mut u64, other: u64| *one = one.saturating_add(other);
        add(&mut self.leases_begun, other.leases_begun);
        add(&mut self.stalls, other.stalls);
        add(&mut self.cost_ns, other.cost_ns);
        add(&mut self.overhead_ns, other.overhead_ns);
        for (why, times) in &other.leases_ended {
            add(self.leases_ended.entry(why.clone()).or_default(), *times);
        }
    }
}

impl Outbox {
    /// A daemon has told what it has done since it was started. What it has told before counts no more.
    ///
    /// # Errors
    /// The outbox cannot be written to, and has what was told before.
    pub fn told(&mut self, daemon: &str, figures: &DaemonFigures) -> Result<(), StoreError> {
        let now = millis(SystemTime::now());
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            put(&mut all, daemon, now, figures).await?;
            sum_up(&mut all).await?;
            all.commit().await
        })
    }
}

async fn put(
    connection: &mut Connection,
    daemon: &str,
    told: i64,
    figures: &DaemonFigures,
) -> sqlx::Result<()> {
    let figures = serde_json::to_string(figures);
    sqlx::query(
        "INSERT INTO daemon (name, told, figures, nth) VALUES ($1, $2, $3, (SELECT coalesce(max(nth), 0) + 1 FROM daemon))
         ON CONFLICT (name) DO UPDATE SET told = excluded.told, figures = excluded.figures, nth = excluded.nth",
    )
    .bind(daemon)
    .bind(told)
    .bind(figures.map_err(|error| sqlx::Error::Encode(error.into()))?)
    .execute(connection)
    .await
    .map(drop)
}

/// Adds those that are too many to the sum.
async fn sum_up(connection: &mut Connection) -> sqlx::Result<()> {
    loop {
        let oldest: Option<(String, i64, String)> = sqlx::query_as(
            "SELECT name, told, figures FROM daemon WHERE name != '' ORDER BY nth DESC LIMIT 1 OFFSET $1",
        )
        .bind(MOST_DAEMONS)
        .fetch_optional(&mut *connection)
        .await?;
        let Some((name, told, figures)) = oldest else {
            return Ok(());
        };
        let before: Option<String> =
            sqlx::query_scalar("SELECT figures FROM daemon WHERE name = ''")
                .fetch_optional(&mut *connection)
                .await?;
        let mut sum = read(&before.unwrap_or_default());
        sum.add(&read(&figures));
        put(connection, "", told, &sum).await?;
        sqlx::query("DELETE FROM daemon WHERE name = $1")
            .bind(name)
            .execute(&mut *connection)
            .await?;
    }
}

/// What all daemons have done; nothing where none has told anything.
pub(super) async fn done(connection: &mut Connection) -> sqlx::Result<Option<DaemonFigures>> {
    let rows: Vec<(i64, String)> =
        sqlx::query_as("SELECT told, figures FROM daemon ORDER BY name = '', nth DESC")
            .fetch_all(connection)
            .await?;
    let Some((told, last)) = rows.first() else {
        return Ok(None);
    };
    let age = millis(SystemTime::now()).saturating_sub(*told);
    let mut all = DaemonFigures {
        now: read(last).now.filter(|_| (0..=SILENCE).contains(&age)),
        ..DaemonFigures::default()
    };
    for (_, figures) in &rows {
        all.add(&read(figures));
    }
    Ok(Some(all))
}

/// What the disk has changed counts for nothing.
fn read(figures: &str) -> DaemonFigures {
    serde_json::from_str(figures).unwrap_or_default()
}

//! What was found on a machine, kept until a collector has taken it.
//!
//! Whoever has found something hands it over ([`Agent`], in the daemon, to the agent, which has an [`Outbox`]); it is on the disk before that is answered. A thread of the agent ([`Shared::send`]) puts what is there into messages and sends one after
//! the other to the [`Collector`]. A message has a number that no other one of this outbox ever had or will have; it is sent until it is taken, and is the same each time. So what is sent
//! twice is known again by sender and number, and what is missing by a gap.
//!
//! The outbox is bounded. When it is full, what is dropped is counted ([`Lost`](crate::delivery::Lost)) and told with each message: first what was learned, then repeated evidence, then how often races were caught again, first sightings last. It is a database of SQLite
//! (`sanitizer/migrations/outbox`), of which all statements are written such that whoever is killed at any instant has done all of it or nothing.
//!
//! Whoever is named no more by the configuration takes nothing more: what waits for him is let go ([`Outbox::let_go`]), and counted as lost.
//!
//! A collector of OpenTelemetry is told of each new race by an event, from a queue beside ([`Shared::send_events`]), and of figures, which nobody keeps: the next ones have all that was counted before ([`Shared::send_metrics`]). Among these are those of the daemon, which hands them over as well ([`Agent::tell`]).

mod bound;
mod collector;
mod daemon;
mod events;
mod figures;
mod handing;
mod hinting;
mod item;
mod items;
mod let_go;
mod metrics;
mod pauses;
mod seal;
mod send;
mod send_metrics;
mod settle;
mod shared;
mod state;
mod take;
mod tally;
#[cfg(test)]
mod tests;
mod wants;

use std::path::Path;

use crate::store::{
    Access, Address, StoreError,
    connect::{Connection, Database, Schema},
};

pub use collector::Collector;
pub use daemon::{DaemonFigures, DaemonNow, ENDINGS};
pub use events::Events;
pub use figures::Figures;
pub use handing::{Agent, Answer, Asked, HandingError, LONGEST_HANDED, Question, ask};
pub use hinting::{Asking, Hinted, Hinting, Pace, Wanted};
pub use let_go::LetGo;
pub use pauses::Timing;
pub use seal::Sealed;
pub use shared::Shared;
pub use wants::Wants;

/// What has been released is never changed.
const SCHEMA: Schema = Schema {
    what: "outbox",
    application: i64::from_be_bytes(*b"\0\0\0\0gwpo"),
    migrations: &[
        (
            1,
            "outbox",
            include_str!("../../migrations/outbox/0001_outbox.sql"),
        ),
        (
            2,
            "otlp",
            include_str!("../../migrations/outbox/0002_otlp.sql"),
        ),
        (
            3,
            "let_go",
            include_str!("../../migrations/outbox/0003_let_go.sql"),
        ),
        (
            4,
            "daemons",
            include_str!("../../migrations/outbox/0004_daemons.sql"),
        ),
        (
            5,
            "tally",
            include_str!("../../migrations/outbox/0005_tally.sql"),
        ),
        (
            6,
            "learning",
            include_str!("../../migrations/outbox/0006_learning.sql"),
        ),
        #[cfg(all(feature = "fault-injection", not(test)))]
        FICTITIOUS,
    ],
    of_servers: &[],
    additions: &[
        #[cfg(all(feature = "fault-injection", not(test)))]
        (FICTITIOUS.0, 6),
    ],
};

/// What a next version may add, as that of the store.
#[cfg(all(feature = "fault-injection", not(test)))]
const FICTITIOUS: (i64, &str, &str) = (
    1_000_000,
    "fictitious",
    "ALTER TABLE item ADD COLUMN fictitious BIGINT NOT NULL DEFAULT 7; CREATE TABLE fictitious (item BIGINT NOT NULL PRIMARY KEY);",
);

/// See the module.
pub struct Outbox {
    database: Database,
    /// Bytes that are kept.
    most: u64,
    wants: Wants,
}

impl Outbox {
    /// Opens an outbox that keeps so many bytes, or makes one.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn open(path: &Path, most: u64) -> Result<Self, StoreError> {
        let database = Database::open(&Address::of_file(path), Access::Create, &SCHEMA)?;
        let mut outbox = Self {
            database,
            most,
            wants: Wants::default(),
        };
        outbox.with(events::send_again)?;
        Ok(outbox)
    }

    /// What is kept from now on; what is there stays until [`Outbox::let_go`].
    #[must_use]
    pub const fn for_whom(mut self, wants: Wants) -> Self {
        self.wants = wants;
        self
    }

    /// Carries something out; after a failure the file is opened again for the next call.
    fn with<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.leave_moved();
        self.database.with(work)
    }
}

//! Reading several things as they are at one moment, in a time that has an end.

use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;

use super::{Database, check};
use crate::store::{engine::Engine, error::StoreError};

/// What somebody reads who is not to read for long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) until: Instant,
    /// Without its transaction it would see several moments.
    pub(super) has_begun: bool,
}

impl Database {
    /// What is read from now on is as it is at this moment, until [`Self::end_look`]. What takes longer than `limit` fails: on a server while it is read, in a file between two statements.
    pub(crate) fn begin_look(&mut self, limit: Duration) -> Result<(), StoreError> {
        self.look = Some(Look {
            until: Instant::now() + limit,
            has_begun: false,
        });
        let schema = self.schema;
        let begun = self.with(async |connection| {
            let begin = Engine::behind(connection).look_within(limit);
            sqlx::raw_sql(AssertSqlSafe(begin))
                .execute(&mut *connection)
                .await?;
            check(connection, schema).await
        });
        match (&mut self.look, &begun) {
            (Some(look), Ok(())) => look.has_begun = true,
            (look, _) => *look = None,
        }
        begun
    }

    /// See [`Self::begin_look`].
    pub(crate) fn end_look(&mut self) {
        self.look = None;
        // What has failed is closed already; what fails here is closed.
        if self.connection.is_some() {
            let _ = self.with(async |connection| {
                let done = sqlx::raw_sql("ROLLBACK").execute(connection);
                done.await.map(drop)
            });
        }
    }
}

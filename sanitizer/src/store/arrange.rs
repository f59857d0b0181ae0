//! Seeing, once an hour, that there is a place for what comes next.

use super::{SCHEMA, Store, connect::begin, engine::Engine, time::hour};

impl Store {
    /// Something was written at this time, milliseconds since 1970. Where this fails, what comes has a place all the same, and it is tried again an hour later.
    pub(super) fn arrange(&mut self, now: i64) {
        let hour = hour(now);
        if self.arranged.replace(hour) == Some(hour) {
            return;
        }
        let done = self.with(async |connection| {
            let engine = Engine::behind(connection);
            if !engine.is_server() {
                return Ok(());
            }
            // Others may write between two transactions.
            loop {
                let mut all = begin(connection, &SCHEMA).await?;
                let is_made = engine.arrange(&mut all, hour).await?;
                all.commit().await?;
                if !is_made {
                    return Ok(());
                }
            }
        });
        if let Err(error) = done {
            tracing::debug!("nothing was arranged for what comes: {error}");
        }
    }
}

//! How long one transaction of many writes before others may: whoever has much to do in a store does it in turns, so that nobody is kept out for longer than he is patient, however many races there are.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    SCHEMA, Store,
    connect::{Connection, begin},
    engine::Engine,
    error::StoreError,
};

/// The shortest time for which anybody waits is some times as long (`PATIENCE` of `cli/races/serve/collector.rs`). What cannot be done in pieces may take longer.
const TURN: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(Instant);

impl Turn {
    /// Begins one: in a transaction beside which nobody else writes.
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether it is the others' turn.
    pub(super) fn is_over(self) -> bool {
        self.0.elapsed() >= TURN
    }
}

/// Lets others have their turn, after a transaction and before the next one.
pub(super) fn give_way(engine: Engine) {
    if let Some(pause) = engine.looks_again_after() {
        thread::sleep(pause);
    }
}

impl Store {
    /// Has something done with all of these, in as many turns as it takes. The work tells with how many of those that are left it has done; with none where it has done a part of the first one.
    pub(super) fn in_turns<T>(
        &mut self,
        all: &[T],
        mut work: impl AsyncFnMut(&mut Connection, &[T], Turn) -> sqlx::Result<usize>,
    ) -> Result<(), StoreError> {
        let mut left = all;
        while !left.is_empty() {
            let (done, engine) = self.with(async |connection| {
                let engine = Engine::behind(connection);
                let mut all = begin(connection, &SCHEMA).await?;
                let done = work(&mut all, left, Turn::begin()).await?;
                all.commit().await?;
                Ok((done, engine))
            })?;
            left = left.get(done..).unwrap_or_default();
            if !left.is_empty() {
                give_way(engine);
            }
        }
        Ok(())
    }
}

//! Who keeps what is found for longer than this process lives: a store, or an agent that sends it on.

use std::{path::Path, time::Duration};

use crate::{
    outbox::{Agent, HandingError},
    report::Baseline,
    store::{Access, Address, Batch, Store},
};

/// How long a store is waited for that is locked.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same after it has failed: reports wait meanwhile.
const LESS_PATIENCE: Duration = Duration::from_millis(100);

/// Why something was not kept.
pub(super) enum Failure {
    /// It may be the next time.
    Now(anyhow::Error),
    /// It is lost.
    Ever(anyhow::Error),
}

/// See the module.
pub(super) trait Keeps: Send {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// Takes what is there, so that the batch is empty; or does not.
    fn take(&mut self, batch: &mut Batch) -> Result<(), Failure>;

    /// Whether something that it was given may not be kept yet, beside the batch.
    fn owes(&self) -> bool {
        false
    }

    /// Whether it is waited for if others use it: it has not failed just now, or there is no later attempt.
    fn be_patient(&mut self, _is_patient: bool) {}

    /// Adds the races of which somebody has said there that they are known.
    ///
    /// # Errors
    /// It cannot be read.
    fn add_known(&mut self, _baseline: &mut Baseline, _now: i64) -> anyhow::Result<()> {
        Ok(())
    }
}

impl Keeps for Store {
    fn name(&self) -> &'static str {
        "the store"
    }

    fn take(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        let written = self.write(batch);
        written.map_err(|error| Failure::Now(error.into()))?;
        *batch = Batch::default();
        Ok(())
    }

    fn be_patient(&mut self, is_patient: bool) {
        self.set_patience(if is_patient { PATIENCE } else { LESS_PATIENCE });
    }

    fn add_known(&mut self, baseline: &mut Baseline, now: i64) -> anyhow::Result<()> {
        Ok(Self::add_known(self, baseline, false, now)?)
    }
}

impl Keeps for Agent {
    fn name(&self) -> &'static str {
        "the agent"
    }

    fn take(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        self.hand_over(batch).map_err(|error| match error {
            HandingError::Never(_) => Failure::Ever(error.into()),
            error => Failure::Now(error.into()),
        })
    }

    fn owes(&self) -> bool {
        Self::owes(self)
    }
}

/// Opens or makes a store.
pub(super) fn store(address: &Address) -> anyhow::Result<Box<dyn Keeps>> {
    let mut store = Store::open(address, Access::Create)?;
    // One that has no room, or is locked, is told before the program begins.
    store.write(&Batch::default())?;
    Ok(Box::new(store))
}

/// The agent that listens there. It may be started later.
pub(super) fn agent(socket: &Path) -> Box<dyn Keeps> {
    Box::new(Agent::new(socket))
}

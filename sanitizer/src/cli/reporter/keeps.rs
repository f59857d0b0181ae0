//! Who keeps what is found for longer than this process lives: a store, or an agent that sends it on.

use std::{
    mem,
    path::Path,
    time::{Duration, SystemTime},
};

use crate::{
    outbox::{Agent, DaemonFigures, HandingError},
    report::Baseline,
    store::{Access, Address, Batch, Lost, Stamp, Store, StoreError, millis},
};

/// How long a store is waited for that is locked.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same after it has failed: reports wait meanwhile.
const LESS_PATIENCE: Duration = Duration::from_millis(100);

/// How long a server may take for a batch, after which it counts as one that is away.
const LIMIT: Duration = Duration::from_secs(20);

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

    /// Is told what the daemon has done; whoever does not care for that need not.
    fn told(&mut self, _figures: &DaemonFigures) {}

    /// Whether something that it was given may not be kept yet, beside the batch.
    fn owes(&self) -> bool {
        false
    }

    /// How many races of these there are.
    fn given(&self) -> usize {
        0
    }

    /// Whether it is waited for if others use it: it has not failed just now, or there is no later attempt.
    fn be_patient(&mut self, _is_patient: bool) {}

    /// It is given nothing more.
    fn end(&mut self) {}

    /// Adds the races of which somebody has said there that they are known.
    ///
    /// # Errors
    /// It cannot be read.
    fn add_known(&mut self, _baseline: &mut Baseline, _now: i64) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A store, and what it was given and has not acknowledged: nobody knows whether a server that did not answer has it, so it comes again as it was, under the same number, and is
/// written once.
struct InStore {
    store: Store,
    given: Option<Batch>,
    /// Its number, and by whom the store knows it.
    sequence: u64,
    sender: String,
}

impl InStore {
    /// Gives the store what it has not acknowledged.
    fn give(&mut self) -> Result<(), StoreError> {
        let Some(batch) = &self.given else {
            return Ok(());
        };
        let stamp = Stamp {
            sender: &self.sender,
            sequence: self.sequence,
            lost: Lost::default(),
        };
        self.store
            .receive(&stamp, batch, millis(SystemTime::now()))?;
        self.given = None;
        self.sequence += 1;
        Ok(())
    }
}

impl Keeps for InStore {
    fn name(&self) -> &'static str {
        "the store"
    }

    fn take(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        let failed = |error: StoreError| Failure::Now(error.into());
        self.give().map_err(failed)?;
        if !batch.is_empty() {
            self.given = Some(mem::take(batch));
            self.give().map_err(failed)?;
        }
        Ok(())
    }

    fn owes(&self) -> bool {
        self.given.is_some()
    }

    fn given(&self) -> usize {
        self.given.as_ref().map_or(0, |batch| batch.caught.len())
    }

    fn be_patient(&mut self, is_patient: bool) {
        self.store
            .set_patience(if is_patient { PATIENCE } else { LESS_PATIENCE });
    }

    /// What it has acknowledged does not come again, so it need not know this sender any more. Of one that is killed a row stays, until it is pruned.
    fn end(&mut self) {
        if self.given.is_none()
            && let Err(error) = self.store.forget_sender(&self.sender)
        {
            tracing::debug!("{error}");
        }
    }

    fn add_known(&mut self, baseline: &mut Baseline, now: i64) -> anyhow::Result<()> {
        Ok(self.store.add_known(baseline, false, now)?)
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

    /// What it does not take is told again later, with what has come until then.
    fn told(&mut self, figures: &DaemonFigures) {
        if let Err(error) = self.tell(figures) {
            tracing::debug!("{error}");
        }
    }

    fn owes(&self) -> bool {
        Self::owes(self)
    }
}

/// Opens or makes a store.
pub(super) fn store(address: &Address) -> anyhow::Result<Box<dyn Keeps>> {
    let mut store = Store::open(address, Access::Create)?;
    store.set_limit(LIMIT);
    // One that has no room, or is locked, is told before the program begins.
    store.write(&Batch::default())?;
    Ok(Box::new(InStore {
        store,
        given: None,
        sequence: 1,
        sender: format!("{:032x}", fastrand::u128(..)),
    }))
}

/// The agent that listens there. It may be started later.
pub(super) fn agent(socket: &Path) -> Box<dyn Keeps> {
    Box::new(Agent::new(socket))
}

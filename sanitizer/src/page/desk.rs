//! The store, for pages: by connections of its own, a few at a time, each for some seconds. What a page shows is read at one moment.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use super::outcome::Failure;
use crate::store::{Access, Address, Store, StoreError};

/// Who reads at a time. More would take each other's processors, and those of programs that are watched.
const READERS: usize = 2;
/// Others who wait.
const WAITING: usize = 64;
/// How long they do.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to read what a page shows.
const LIMIT: Duration = Duration::from_secs(8);
/// SQLite cannot be told to break off: what goes on after that keeps nobody else from reading, so many at a time.
const STRAGGLERS: usize = 6;

/// See the module.
pub struct Desk {
    address: Address,
    limit: Duration,
    /// Open, and read by nobody.
    idle: Mutex<Vec<Store>>,
    readers: Arc<Semaphore>,
    stragglers: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

/// What somebody holds as long as he reads.
type Turn = Arc<Mutex<OwnedSemaphorePermit>>;

impl Desk {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn open(address: Address) -> Result<Self, StoreError> {
        let desk = Self {
            address,
            limit: LIMIT,
            idle: Mutex::default(),
            readers: Arc::new(Semaphore::new(READERS)),
            stragglers: Arc::new(Semaphore::new(STRAGGLERS)),
            places: Arc::new(Semaphore::new(READERS + WAITING)),
        };
        let store = desk.opened()?;
        desk.idle().push(store);
        Ok(desk)
    }

    /// One that has less patience.
    #[cfg(test)]
    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Reads something of one moment, in a thread that may wait.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let limit = self.limit;
        self.use_store(move |store| store.look(limit, work)).await
    }

    /// Reads something and writes something for it, in a thread that may wait.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.use_store(work).await
    }

    async fn use_store<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| Failure::Busy)?;
        let turn = timeout(PATIENCE, Arc::clone(&self.readers).acquire_owned());
        let Ok(Ok(turn)) = turn.await else {
            return Err(Failure::Busy);
        };
        let turn: Turn = Arc::new(Mutex::new(turn));
        let (desk, held) = (Arc::clone(self), Arc::clone(&turn));
        let reading = spawn_blocking(move || {
            // It is another's turn when this has ended, whether somebody waits for it still or not.
            let _held = held;
            desk.carry_out(work)
        });
        let desk = Arc::clone(self);
        // By itself: whoever has asked may have gone.
        let waiting = tokio::spawn(async move {
            let _place = place;
            match timeout(desk.limit.saturating_mul(5) / 4, reading).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => Err(Failure::Own(error.to_string())),
                Err(_) => {
                    desk.let_alone(&turn);
                    Err(Failure::Late("it is still read".to_owned()))
                }
            }
        });
        let found = waiting.await;
        found.unwrap_or_else(|error| Err(Failure::Own(error.to_string())))
    }

    fn carry_out<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut store = self.take()?;
        let begun = Instant::now();
        let found = work(&mut store);
        let mut idle = self.idle();
        if idle.len() < READERS {
            idle.push(store);
        }
        drop(idle);
        found.map_err(|failure| failure.after(begun.elapsed() >= self.limit))
    }

    /// Somebody goes on who is waited for no more: others have his turn, unless there are too many of his kind.
    fn let_alone(&self, turn: &Turn) {
        if let Ok(other) = Arc::clone(&self.stragglers).try_acquire_owned() {
            *turn.lock().unwrap_or_else(PoisonError::into_inner) = other;
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Store>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is open, and whose file is the one of this name still.
    fn take(&self) -> Result<Store, Failure> {
        loop {
            let idle = self.idle().pop();
            match idle {
                Some(store) if store.is_moved() => tracing::warn!(
                    "the store {} was moved away or deleted, so it is shown no more; what is in its place is, if it is a store",
                    self.address
                ),
                Some(store) => return Ok(store),
                None => return Ok(self.opened()?),
            }
        }
    }

    fn opened(&self) -> Result<Store, StoreError> {
        let mut store = Store::open(&self.address, Access::Existing)?;
        store.set_limit(self.limit);
        Ok(store)
    }
}

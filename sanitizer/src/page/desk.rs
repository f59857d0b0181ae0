//! Reading the store for pages: by connections of its own, a few at a time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::outcome::Failure;
use crate::store::{Access, Address, Store, StoreError};

/// Who reads at a time. More would take each other's processors, and those of programs that are watched.
const READERS: usize = 2;
/// Others who wait.
const WAITING: usize = 64;
/// How long they do.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Desk {
    address: Address,
    /// Open, and read by nobody.
    idle: Mutex<Vec<Store>>,
    readers: Arc<Semaphore>,
    places: Semaphore,
}

impl Desk {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn open(address: Address) -> Result<Self, StoreError> {
        let store = Store::open(&address, Access::Existing)?;
        Ok(Self {
            address,
            idle: Mutex::new(vec![store]),
            readers: Arc::new(Semaphore::new(READERS)),
            places: Semaphore::new(READERS + WAITING),
        })
    }

    /// Reads something, in a thread that may wait.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let _place = self.places.try_acquire().map_err(|_| Failure::Busy)?;
        let turn = timeout(PATIENCE, Arc::clone(&self.readers).acquire_owned());
        let turn = match turn.await {
            Ok(Ok(turn)) => turn,
            _ => return Err(Failure::Busy),
        };
        let desk = Arc::clone(self);
        let reading = spawn_blocking(move || {
            // It is another's turn when this has ended, whether somebody waits for it still or not.
            let _turn = turn;
            let mut store = desk.take()?;
            let found = work(&mut store);
            desk.idle().push(store);
            found
        });
        match timeout(PATIENCE, reading).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => Err(Failure::Own(error.to_string())),
            Err(_) => Err(Failure::Busy),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Store>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<Store, StoreError> {
        let idle = self.idle().pop();
        match idle {
            Some(store) => Ok(store),
            None => Store::open(&self.address, Access::Existing),
        }
    }
}

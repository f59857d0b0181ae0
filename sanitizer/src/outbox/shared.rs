//! An outbox that one thread fills and another one empties.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Figures, Outbox};
use crate::{
    delivery::{Lost, Message},
    store::StoreError,
};

/// See the module.
pub struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

pub(super) struct Inner {
    pub(super) outbox: Outbox,
    /// Why the last message was not taken.
    pub(super) failing: Option<String>,
    /// Something was put in.
    has_news: bool,
    is_over: bool,
}

impl Shared {
    /// Of an outbox that is in nobody else's hands.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            inner: Mutex::new(Inner {
                outbox,
                failing: None,
                has_news: false,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what was handed over; see [`Outbox::take`].
    ///
    /// # Errors
    /// The outbox cannot be written to.
    pub fn take(&self, handed: &Message) -> Result<Lost, StoreError> {
        let mut inner = self.lock();
        let lost = inner.outbox.take(handed)?;
        inner.has_news = true;
        drop(inner);
        self.changed.notify_all();
        Ok(lost)
    }

    /// What there is to say of it.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn figures(&self) -> Result<Figures, StoreError> {
        let mut inner = self.lock();
        let figures = inner.outbox.figures()?;
        Ok(Figures {
            failing: inner.failing.clone(),
            ..figures
        })
    }

    /// Nothing more is sent.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for so long; false where all is over.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut inner = self.lock();
        while !inner.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Waits until something is put in; false where all is over.
    pub(super) fn wait(&self) -> bool {
        let mut inner = self.lock();
        while !inner.is_over && !inner.has_news {
            let waited = self.changed.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
        inner.has_news = false;
        !inner.is_over
    }
}

//! An outbox that one thread fills and others empty.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{DaemonFigures, Figures, Outbox};
use crate::{
    delivery::{Lost, Message},
    store::StoreError,
};

/// See the module.
pub struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    collector: String,
    otlp: Option<String>,
}

/// See [`Inner`], by what was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Failing {
    pub(super) messages: Option<String>,
    pub(super) events: Option<String>,
    pub(super) metrics: Option<String>,
}

pub(super) struct Inner {
    pub(super) outbox: Outbox,
    /// Why what was sent last was not taken.
    pub(super) failing: Failing,
    /// How often something was put in.
    news: u64,
    is_over: bool,
}

impl Shared {
    /// Of an outbox that is in nobody else's hands.
    #[must_use]
    pub fn new(outbox: Outbox) -> Self {
        Self {
            inner: Mutex::new(Inner {
                outbox,
                failing: Failing::default(),
                news: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
            collector: String::new(),
            otlp: None,
        }
    }

    /// Of whom it is said that they take what is there: a collector of gwp-race, and one of OpenTelemetry.
    #[must_use]
    pub fn for_whom(self, collector: Option<&str>, otlp: Option<&str>) -> Self {
        Self {
            collector: collector.unwrap_or_default().to_owned(),
            otlp: otlp.map(str::to_owned),
            ..self
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
        inner.news += 1;
        drop(inner);
        self.changed.notify_all();
        Ok(lost)
    }

    /// Takes in what a daemon has done; see [`Outbox::told`].
    ///
    /// # Errors
    /// The outbox cannot be written to.
    pub fn told(&self, daemon: &str, figures: &DaemonFigures) -> Result<(), StoreError> {
        self.lock().outbox.told(daemon, figures)
    }

    /// What there is to say of it.
    ///
    /// # Errors
    /// The outbox cannot be read.
    pub fn figures(&self) -> Result<Figures, StoreError> {
        let mut inner = self.lock();
        let figures = inner.outbox.figures()?;
        Ok(Figures {
            collector: self.collector.clone(),
            otlp: self.otlp.clone(),
            failing: inner.failing.messages.clone(),
            events_failing: inner.failing.events.clone(),
            metrics_failing: inner.failing.metrics.clone(),
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

    /// Waits until something is put in that was not heard of; false where all is over.
    pub(super) fn wait(&self, heard: &mut u64) -> bool {
        let mut inner = self.lock();
        while !inner.is_over && inner.news == *heard {
            let waited = self.changed.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *heard = inner.news;
        !inner.is_over
    }
}

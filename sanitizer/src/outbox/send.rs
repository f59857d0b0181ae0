//! The threads that send what is in an outbox, each one thing at a time.

use std::time::Duration;

use super::{
    Collector, Sealed, Shared, Timing, collector::Outcome, pauses::Pauses, shared::Failing,
};
use crate::{
    otlp::{self, Exporter},
    store::StoreError,
};

/// Events that are sent at once.
const MOST_EVENTS: usize = 100;

/// What becomes of what was not taken.
const KEPT: &str = "which are kept and sent again";

/// Something was not taken.
pub(super) struct Failure {
    /// For how long whoever is to take it wants to be left alone.
    pub(super) wanted: Option<Duration>,
    /// Why, and what to do.
    pub(super) why: String,
    /// What becomes of it.
    pub(super) then: &'static str,
}

impl Failure {
    fn kept(wanted: Option<Duration>, why: String) -> Self {
        Self {
            wanted,
            why,
            then: KEPT,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::kept(None, error.to_string())
    }
}

/// Who takes something.
pub(super) trait Taker {
    /// What messages call it.
    fn name(&self) -> &str;

    /// What it takes.
    const WHAT: &'static str;

    /// Where it is kept why it did not.
    fn failing(all: &mut Failing) -> &mut Option<String>;

    /// Sends what is next, and puts down what has become of it; false where there is nothing.
    fn send_next(&mut self, shared: &Shared) -> Result<bool, Failure>;
}

impl Shared {
    /// Sends messages, those that are there and those that come, until all is over.
    pub fn send(&self, collector: &Collector, timing: &Timing) {
        self.send_to(&mut Messages(collector), timing);
    }

    /// The same of events.
    pub fn send_events(&self, exporter: &Exporter, timing: &Timing) {
        let most = MOST_EVENTS;
        self.send_to(&mut Events { exporter, most }, timing);
    }

    fn send_to<T: Taker>(&self, taker: &mut T, timing: &Timing) {
        let mut random = fastrand::Rng::new();
        let mut pauses = Pauses::default();
        let mut heard = 0;
        loop {
            let pause = match taker.send_next(self) {
                Ok(true) => {
                    self.works(taker);
                    pauses.end();
                    Duration::ZERO
                }
                Ok(false) => {
                    if !self.wait(&mut heard) {
                        return;
                    }
                    timing.linger
                }
                Err(failure) => {
                    let wanted = failure.wanted;
                    self.fails(taker, failure);
                    pauses.next(timing, wanted, &mut random)
                }
            };
            if !self.rest(pause) {
                return;
            }
        }
    }

    /// Something was answered.
    pub(super) fn works<T: Taker>(&self, taker: &T) {
        let before = T::failing(&mut self.lock().failing).take();
        if before.is_some() {
            tracing::warn!("{} takes {} again", taker.name(), T::WHAT);
        }
    }

    /// Nothing was. It is told when it begins, and when it has another reason.
    pub(super) fn fails<T: Taker>(&self, taker: &T, failure: Failure) {
        let Failure { why, then, .. } = failure;
        let mut inner = self.lock();
        let before = T::failing(&mut inner.failing).replace(why.clone());
        drop(inner);
        let (name, what) = (taker.name(), T::WHAT);
        if before.as_ref() == Some(&why) {
            tracing::debug!("{name} still does not take {what}: {why}");
        } else {
            tracing::warn!("{name} does not take {what}, {then}: {why}");
        }
    }
}

/// A collector of gwp-race.
struct Messages<'a>(&'a Collector);

impl Taker for Messages<'_> {
    const WHAT: &'static str = "messages";

    fn name(&self) -> &str {
        self.0.name()
    }

    fn failing(all: &mut Failing) -> &mut Option<String> {
        &mut all.messages
    }

    fn send_next(&mut self, shared: &Shared) -> Result<bool, Failure> {
        // Nobody is kept from putting something in while it is sent.
        let next = shared.lock().outbox.message()?;
        let Some(Sealed { sequence, body }) = next else {
            return Ok(false);
        };
        match self.0.post(&body) {
            Outcome::Taken => {
                // Where that cannot be written it comes once more, and is known there.
                shared.lock().outbox.taken(sequence)?;
            }
            Outcome::Never(why) => {
                shared.lock().outbox.set_aside(sequence, &why)?;
                tracing::warn!(
                    "{} will never take message {sequence} ({why}); it is set aside: update whichever of the two is older, or ask who runs the collector",
                    self.name(),
                );
            }
            Outcome::Later(wanted, why) => return Err(Failure::kept(wanted, why)),
        }
        Ok(true)
    }
}

/// A collector of OpenTelemetry.
struct Events<'a> {
    exporter: &'a Exporter,
    /// So many at once.
    most: usize,
}

impl Taker for Events<'_> {
    const WHAT: &'static str = "events";

    fn name(&self) -> &str {
        self.exporter.name()
    }

    fn failing(all: &mut Failing) -> &mut Option<String> {
        &mut all.events
    }

    fn send_next(&mut self, shared: &Shared) -> Result<bool, Failure> {
        let next = shared.lock().outbox.events(self.most)?;
        let Some(next) = next else {
            return Ok(false);
        };
        match self.exporter.logs(&next.body) {
            otlp::Outcome::Taken { rejected, said } => {
                let mut inner = shared.lock();
                inner
                    .outbox
                    .events_taken(next.last, rejected.saturating_add(next.damaged))?;
                drop(inner);
                self.most = MOST_EVENTS;
                if rejected > 0 || said.is_some() {
                    tracing::warn!(
                        "{} has taken {} events, but for {rejected}, which are not sent again; it says: {}",
                        self.name(),
                        next.count,
                        said.unwrap_or_default()
                    );
                }
            }
            // The one that it does not take is found by halves.
            otlp::Outcome::Never { may_be_split, .. } if may_be_split && next.count > 1 => {
                self.most = next.count / 2;
                return self.send_next(shared);
            }
            otlp::Outcome::Never { why, .. } => {
                shared.lock().outbox.events_refused(next.last)?;
                return Err(Failure {
                    wanted: None,
                    why,
                    then: "which are not sent again before the agent is started anew",
                });
            }
            otlp::Outcome::Later(wanted, why) => return Err(Failure::kept(wanted, why)),
        }
        Ok(true)
    }
}

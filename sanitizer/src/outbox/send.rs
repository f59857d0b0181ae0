//! The thread that sends what is in an outbox, one message at a time.

use std::time::Duration;

use super::{Collector, Sealed, Shared, Timing, collector::Outcome, pauses::Pauses};
use crate::store::StoreError;

/// Why a message was not taken, and for how long the collector wants to be left alone.
type Failure = (Option<Duration>, String);

impl Shared {
    /// Sends what is there and what comes, until all is over.
    pub fn send(&self, collector: &Collector, timing: &Timing) {
        let mut random = fastrand::Rng::new();
        let mut pauses = Pauses::default();
        loop {
            // Nobody is kept from putting something in while it is sent.
            let next = self.lock().outbox.message();
            let next = match next {
                Ok(Some(message)) => self.deliver(collector, &message),
                Ok(None) => {
                    if !self.wait() || !self.rest(timing.linger) {
                        return;
                    }
                    continue;
                }
                Err(error) => Err((None, error.to_string())),
            };
            let pause = match next {
                Ok(()) => {
                    self.works(collector);
                    pauses.end();
                    Duration::ZERO
                }
                Err((wanted, why)) => {
                    self.fails(collector, why);
                    pauses.next(timing, wanted, &mut random)
                }
            };
            if !self.rest(pause) {
                return;
            }
        }
    }

    /// Sends a message, and puts down what has become of it.
    fn deliver(&self, collector: &Collector, message: &Sealed) -> Result<(), Failure> {
        let kept = |error: StoreError| (None, error.to_string());
        match collector.post(&message.body) {
            Outcome::Taken => {
                // Where that cannot be written it comes once more, and is known there.
                let done = self.lock().outbox.taken(message.sequence);
                done.map_err(kept)
            }
            Outcome::Never(why) => {
                let done = self.lock().outbox.set_aside(message.sequence, &why);
                done.map_err(kept)?;
                tracing::warn!(
                    "{} will never take message {} ({why}); it is set aside: update whichever of the two is older, or ask who runs the collector",
                    collector.name(),
                    message.sequence
                );
                Ok(())
            }
            Outcome::Later(wanted, why) => Err((wanted, why)),
        }
    }

    /// Something was answered.
    fn works(&self, collector: &Collector) {
        let before = self.lock().failing.take();
        if before.is_some() {
            tracing::warn!("{} takes messages again", collector.name());
        }
    }

    /// Nothing was. It is told when it begins, and when it has another reason.
    fn fails(&self, collector: &Collector, why: String) {
        let mut inner = self.lock();
        let is_told = inner.failing.as_ref() == Some(&why);
        inner.failing = Some(why.clone());
        drop(inner);
        let name = collector.name();
        if is_told {
            tracing::debug!("{name} still does not take what was found: {why}");
        } else {
            tracing::warn!(
                "{name} does not take what was found, which is kept and sent again: {why}"
            );
        }
    }
}

//! The thread that sends figures. None are kept: the next ones have all that was counted before.

use std::time::{Duration, SystemTime};

use super::{
    Shared, Timing,
    send::{Failure, Taker},
    shared::Failing,
};
use crate::{
    otlp::{Exporter, Outcome, metrics},
    store::{millis, millis_of},
};

/// What becomes of figures that were not taken.
const GONE: &str = "and is sent others later, which have all that was counted";

impl Shared {
    /// Sends figures now, and as often as is wanted, until all is over. `host`: of which machine they are.
    pub fn send_metrics(&self, exporter: &Exporter, host: &str, interval: Duration) {
        let most_wanted = Timing::default().most_wanted;
        let mut figures = Sent { exporter, host };
        loop {
            let pause = match figures.send_next(self) {
                Ok(_) => {
                    self.works(&figures);
                    interval
                }
                Err(failure) => {
                    let wanted = failure.wanted.unwrap_or_default();
                    self.fails(&figures, failure);
                    interval.max(wanted.min(most_wanted))
                }
            };
            if !self.rest(pause) {
                return;
            }
        }
    }
}

/// A collector of OpenTelemetry, and what it is told.
struct Sent<'a> {
    exporter: &'a Exporter,
    host: &'a str,
}

impl Taker for Sent<'_> {
    const WHAT: &'static str = "figures";

    fn name(&self) -> &str {
        self.exporter.name()
    }

    fn failing(all: &mut Failing) -> &mut Option<String> {
        &mut all.metrics
    }

    fn send_next(&mut self, shared: &Shared) -> Result<bool, Failure> {
        let gone = |wanted, why| Failure {
            wanted,
            why,
            then: GONE,
        };
        let figures = shared.figures()?;
        let since = millis_of(&figures.since).unwrap_or_default();
        let now = millis(SystemTime::now());
        let all = figures.metrics();
        let body = metrics(&all, self.host, &figures.sender, since, now);
        match self.exporter.metrics(&body) {
            Outcome::Taken { rejected: 0, .. } => Ok(true),
            Outcome::Taken { rejected, said } => {
                let said = said.unwrap_or_default();
                let why = format!(
                    "it has thrown away {rejected} of their values ({said}): see what it expects"
                );
                Err(gone(None, why))
            }
            Outcome::Never { why, .. } => Err(gone(None, why)),
            Outcome::Later(wanted, why) => Err(gone(wanted, why)),
        }
    }
}

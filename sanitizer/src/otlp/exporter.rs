//! Sending to a collector of OpenTelemetry.

use ureq::Agent;

use super::answer::{KEY, Outcome, outcome};
use crate::http::{Destination, DestinationError};

/// See the module.
pub struct Exporter {
    destination: Destination,
    client: Agent,
}

impl Exporter {
    /// Reads the files that a destination names. Its address is what stands before `/v1/logs` and `/v1/metrics`.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(destination: Destination) -> Result<Self, DestinationError> {
        Ok(Self {
            client: destination.client()?,
            destination,
        })
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.destination.server.name
    }

    /// Sends [`events`](super::events).
    #[must_use]
    pub fn logs(&self, body: &str) -> Outcome {
        self.post("v1/logs", body)
    }

    /// Sends [`metrics`](super::metrics()).
    #[must_use]
    pub fn metrics(&self, body: &str) -> Outcome {
        self.post("v1/metrics", body)
    }

    fn post(&self, path: &str, body: &str) -> Outcome {
        let about = [("Content-Type", "application/json")];
        let destination = &self.destination;
        match destination.post(&self.client, path, &about, body.as_bytes(), KEY) {
            Ok(answer) => outcome(answer),
            Err(why) => Outcome::Later(None, why),
        }
    }
}

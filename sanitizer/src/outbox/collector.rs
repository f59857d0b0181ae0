//! Sending a message to the collector, and what its answer means.

use std::time::Duration;

use ureq::{Agent, Body, http::Response};

use crate::http::{Destination, DestinationError, retry_after, said};

/// Where collectors take messages.
const PATH: &str = "v1/messages";
/// Where the configuration names it.
const KEY: &str = "collector of [agent]";

/// What has become of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The collector has it.
    Taken,
    /// It will never take it.
    Never(String),
    /// It may take it later; where it has said when, not before that.
    Later(Option<Duration>, String),
}

/// See the module.
pub struct Collector {
    destination: Destination,
    client: Agent,
}

impl Collector {
    /// Reads the files that a destination names.
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

    /// Sends a message.
    pub(super) fn post(&self, body: &[u8]) -> Outcome {
        let about = [
            ("Content-Type", "application/json"),
            ("Content-Encoding", "zstd"),
        ];
        let destination = &self.destination;
        match destination.post(&self.client, PATH, &about, body, KEY) {
            Ok(answer) => outcome(answer),
            Err(why) => Outcome::Later(None, why),
        }
    }
}

/// What an answer means. Nothing but a collector says 204 to a message, so what sits on the way and says that all is well is not believed.
fn outcome(mut answer: Response<Body>) -> Outcome {
    let status = answer.status().as_u16();
    if status == 204 {
        return Outcome::Taken;
    }
    let wanted = retry_after(&answer);
    let said = said(&mut answer);
    match status {
        400 | 413 | 422 => Outcome::Never(said),
        401 | 403 => Outcome::Later(
            None,
            format!("it does not know who sends ({said}): check token and certificate of [agent]"),
        ),
        426 => Outcome::Later(
            wanted,
            format!("it is an older gwp-race ({said}): update it"),
        ),
        429 | 503 => Outcome::Later(wanted, format!("it has no time now ({said})")),
        300..400 => Outcome::Later(
            None,
            format!(
                "it leads elsewhere ({said}), which is not followed: name the address itself as {KEY}"
            ),
        ),
        _ => Outcome::Later(
            None,
            format!(
                "it answers as no collector of gwp-race does ({said}): check {KEY}, or see what is wrong there"
            ),
        ),
    }
}

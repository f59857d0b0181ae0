//! Sending a message to the collector, and what its answer means.

use std::time::Duration;

use ureq::{Agent, Body, http::Response};

use crate::{
    delivery::hints::LONGEST,
    http::{Destination, DestinationError, retry_after, said},
    learned::Module,
    store::digest_of_bytes,
};

/// Where collectors take messages.
const PATH: &str = "v1/messages";
/// Where they tell what others have learned, before name and build id.
const HINTS: &str = "v1/hints";
/// Characters of a tag that is kept.
const LONGEST_TAG: usize = 128;
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

/// What there is of a build that others have learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// This, by a tag, as it stands in the header.
    New(String, Vec<u8>),
    /// What is known already.
    Same,
    /// Nothing; or the collector does not know of such things.
    Nothing,
    /// It may say later; where it has said when, not before that.
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

    /// Asks what others have learned of a build, if it is not what has this tag.
    pub(super) fn hints(&self, module: &Module, tag: &str) -> Told {
        let path = format!("{HINTS}/{}/{}", escaped(&module.name), module.build);
        let about: &[_] = match tag {
            "" => &[],
            tag => &[("If-None-Match", tag)],
        };
        match self.destination.get(&self.client, &path, about, KEY) {
            Ok(answer) => told(answer),
            Err(why) => Told::Later(None, why),
        }
    }
}

/// A name as it stands in an address (RFC 3986).
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'.' => {
                escaped.push(byte.into());
            }
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

/// What an answer means to whoever has asked what others have learned.
fn told(mut answer: Response<Body>) -> Told {
    match answer.status().as_u16() {
        200 => {
            let tag = answer.headers().get("ETag");
            let tag = tag.and_then(|tag| tag.to_str().ok());
            let is_tag = |tag: &&str| {
                tag.len() <= LONGEST_TAG && tag.bytes().all(|byte| byte.is_ascii_graphic())
            };
            let tag = tag.filter(is_tag).map(str::to_owned);
            let body = answer.body_mut().with_config().limit(LONGEST as u64);
            match body.read_to_vec() {
                Ok(body) => Told::New(
                    tag.unwrap_or_else(|| format!("\"{}\"", digest_of_bytes(&body))),
                    body,
                ),
                Err(error) => {
                    let why = format!(
                        "what it says has more than {LONGEST} bytes, or has broken off ({error})"
                    );
                    Told::Later(None, why)
                }
            }
        }
        304 => Told::Same,
        404 => Told::Nothing,
        _ => Told::Later(retry_after(&answer), said(&mut answer)),
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

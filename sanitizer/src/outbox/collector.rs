//! Sending a message to the collector, and what its answer means.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use ureq::{Agent, Timeout, http::Response};

use super::Destination;
use crate::{
    http::{Patience, Trust, TrustError, client},
    kernel::{
        KernelError,
        named::{Named, ReadersError, WritersError},
        rights::as_caller,
    },
    report::clean::clean,
};

/// Where collectors take messages.
const PATH: &str = "v1/messages";
/// How long a collector may take to be found, and to be connected.
const CONNECT: Duration = Duration::from_secs(10);
/// The same to take a message, and then to answer: it may wait for its disk.
const ANSWER: Duration = Duration::from_secs(60);
/// The longest token, certificates and key, bytes.
const LONGEST_FILE: u64 = 1 << 20;
/// Bytes of an answer that are told.
const LONGEST_TOLD: u64 = 512;

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// A file cannot be read.
    #[error(
        "cannot read {path}, which [agent] names: {source}; give it to the user of the agent, or name another one"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said, or what it is.
        source: io::Error,
    },
    /// Others may write it.
    #[error(transparent)]
    Writers(#[from] WritersError),
    /// Others may read it.
    #[error(transparent)]
    Readers(#[from] ReadersError),
    /// A certificate or key is none.
    #[error("{path} {error}")]
    Trust {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: TrustError,
    },
    /// A token is none.
    #[error(
        "the token in {path} is not one word of visible characters of ASCII; put one there, such as `openssl rand -hex 32` makes"
    )]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// Capabilities could not be laid down to read a file.
    #[error(transparent)]
    Rights(#[from] KernelError),
}

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
    url: String,
    client: Agent,
}

impl Collector {
    /// Reads the files that a destination names.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn new(destination: Destination) -> Result<Self, CollectorError> {
        let mut trust = Trust::default();
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |error| CollectorError::Trust { path, error }
        };
        if let Some(path) = &destination.authorities {
            let pem = text(path, false)?;
            trust.believe(pem.as_bytes()).map_err(wrong(path))?;
        }
        if let Some((certificate, key)) = &destination.identity {
            let own = text(certificate, false)?;
            let secret = text(key, true)?;
            let done = trust.be(own.as_bytes(), secret.as_bytes());
            done.map_err(|error| match error {
                TrustError::NoKey => wrong(key)(error),
                error => wrong(certificate)(error),
            })?;
        }
        let patience = Patience {
            resolve: Some(CONNECT),
            connect: Some(CONNECT),
            send: Some(ANSWER),
            answer: Some(ANSWER),
            read: Some(ANSWER),
            body: Some(CONNECT),
        };
        let collector = Self {
            url: destination.server.at(PATH),
            client: client(Some(&destination.server), &trust, patience),
            destination,
        };
        collector.authorization()?;
        Ok(collector)
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.destination.server.name
    }

    /// The header by which the collector knows who sends. The file is read each time: whoever changes the token need do nothing else.
    fn authorization(&self) -> Result<Option<String>, CollectorError> {
        let Some(path) = &self.destination.token else {
            return Ok(None);
        };
        let text = text(path, true)?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CollectorError::Token { path: path.clone() });
        }
        Ok(Some(format!("Bearer {token}")))
    }

    /// Sends a message.
    pub(super) fn post(&self, body: &[u8]) -> Outcome {
        let mut request = self
            .client
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("Content-Encoding", "zstd");
        match self.authorization() {
            Ok(Some(authorization)) => request = request.header("Authorization", authorization),
            Ok(None) => {}
            Err(error) => return Outcome::Later(None, error.to_string()),
        }
        match request.send(body) {
            Ok(answer) => outcome(answer),
            Err(error) => Outcome::Later(None, failure(&error)),
        }
    }
}

/// What an answer means. Nothing but a collector says 204 to a message, so what sits on the way and says that all is well is not believed.
fn outcome(mut answer: Response<ureq::Body>) -> Outcome {
    let status = answer.status().as_u16();
    let wanted = answer.headers().get("Retry-After");
    let wanted = wanted.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let mut told = Vec::new();
    if status != 204 {
        // What does not come is not told.
        let _ = answer
            .body_mut()
            .as_reader()
            .take(LONGEST_TOLD)
            .read_to_end(&mut told);
    }
    let told = String::from_utf8_lossy(&told);
    let said = match told.trim() {
        "" => format!("HTTP status {status}"),
        told => format!("HTTP status {status}: {}", clean(told)),
    };
    match status {
        204 => Outcome::Taken,
        400 | 413 | 422 => Outcome::Never(said),
        401 | 403 => Outcome::Later(
            None,
            format!("it does not know who sends ({said}): check token and certificate of [agent]"),
        ),
        429 | 503 => Outcome::Later(
            wanted.map(Duration::from_secs),
            format!("it has no time now ({said})"),
        ),
        300..400 => Outcome::Later(
            None,
            format!(
                "it leads elsewhere ({said}), which is not followed: name the address itself as collector of [agent]"
            ),
        ),
        _ => Outcome::Later(
            None,
            format!(
                "it answers as no collector of gwp-race does ({said}): check collector of [agent], or see what is wrong there"
            ),
        ),
    }
}

/// Why there was no answer. It does not repeat the address.
fn failure(error: &ureq::Error) -> String {
    let why = match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            return "it cannot be reached in time: check collector of [agent], and the network"
                .to_owned();
        }
        ureq::Error::Timeout(_) => {
            return "it does not answer in time: see what it waits for".to_owned();
        }
        ureq::Error::BadUri(_) => "its address is none".to_owned(),
        error => error.to_string(),
    };
    format!(
        "it cannot be reached, or has broken off ({}): check collector of [agent], and whether it runs",
        clean(&why)
    )
}

/// Reads a file that a destination names.
fn text(path: &Path, is_secret: bool) -> Result<String, CollectorError> {
    let failed = |source| CollectorError::Read {
        path: path.to_owned(),
        source,
    };
    as_caller(|| {
        let file = Named::find(path).map_err(failed)?;
        file.check_writers(path)?;
        if is_secret {
            file.check_readers(path)?;
        }
        file.read_text(LONGEST_FILE).map_err(failed)
    })?
}

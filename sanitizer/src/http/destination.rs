//! A server that something is sent to, and who the sender is there. Of the files that this names nothing is kept in memory but whom to believe and who to be: a secret is read each time it is sent, so whoever changes it need do nothing else.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use ureq::{
    Agent, Body,
    http::{HeaderName, HeaderValue, Response},
};

use super::{Patience, Server, Trust, TrustError, answer::failure, client};
use crate::kernel::{
    KernelError,
    named::{Named, ReadersError, WritersError},
    rights::as_caller,
};

/// How long a server may take to be found, and to be connected.
const CONNECT: Duration = Duration::from_secs(10);
/// The same to take what is sent, and then to answer: it may wait for its disk.
const ANSWER: Duration = Duration::from_secs(60);
/// The longest secret, certificates and key, bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// See the module. Files are in PEM, but for the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The server.
    pub server: Server,
    /// By what it knows that it is meant.
    pub secret: Option<Secret>,
    /// The file of those whom it is signed by; where there is none, whom this machine believes.
    pub authorities: Option<PathBuf>,
    /// The files of the sender's own certificate, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A file with a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// It is one word, the token of `Authorization: Bearer`.
    Token(PathBuf),
    /// It has a header a line: `Name: value`. Empty lines, and those that begin with `#`, are passed over.
    Headers(PathBuf),
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
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
    /// A header is none. It may be a secret, so it is not told.
    #[error("line {line} of {path} is no header; write each as `Name: value`, a line each")]
    Header {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// Capabilities could not be laid down to read a file.
    #[error(transparent)]
    Rights(#[from] KernelError),
}

impl Destination {
    /// A client of the server, by the files that are named.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn client(&self) -> Result<Agent, DestinationError> {
        let mut trust = Trust::default();
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |error| DestinationError::Trust { path, error }
        };
        if let Some(path) = &self.authorities {
            let pem = text(path, false)?;
            trust.believe(pem.as_bytes()).map_err(wrong(path))?;
        }
        if let Some((certificate, key)) = &self.identity {
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
        self.headers()?;
        Ok(client(Some(&self.server), &trust, patience))
    }

    /// Sends something to what the server has at a path, by a client of it, with headers that say what it is and those by which the server knows who sends, as the file has them now.
    ///
    /// # Errors
    /// Why there is no answer, and what to do, in words; it may be another time. `key` of the configuration names the server.
    pub fn post(
        &self,
        client: &Agent,
        path: &str,
        about: &[(&str, &str)],
        body: &[u8],
        key: &str,
    ) -> Result<Response<Body>, String> {
        let mut request = client.post(self.server.at(path));
        for &(name, value) in about {
            request = request.header(name, value);
        }
        let headers = self.headers().map_err(|error| error.to_string())?;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send(body).map_err(|error| failure(&error, key))
    }

    /// Asks for what the server has at a path, as [`Destination::post`] sends something.
    ///
    /// # Errors
    /// As with that.
    pub fn get(
        &self,
        client: &Agent,
        path: &str,
        about: &[(&str, &str)],
        key: &str,
    ) -> Result<Response<Body>, String> {
        let mut request = client.get(self.server.at(path));
        for &(name, value) in about {
            request = request.header(name, value);
        }
        let headers = self.headers().map_err(|error| error.to_string())?;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.call().map_err(|error| failure(&error, key))
    }

    /// The headers by which the server knows who sends.
    ///
    /// # Errors
    /// The file of the secret cannot be used.
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, DestinationError> {
        match &self.secret {
            None => Ok(Vec::new()),
            Some(Secret::Token(path)) => {
                let text = text(path, true)?;
                let value = bearer(text.trim());
                let value = value.ok_or_else(|| DestinationError::Token { path: path.clone() })?;
                Ok(vec![(ureq::http::header::AUTHORIZATION, value)])
            }
            Some(Secret::Headers(path)) => {
                let text = text(path, true)?;
                let lines = text.lines().enumerate();
                let told = lines.filter(|(_, line)| {
                    let line = line.trim();
                    !line.is_empty() && !line.starts_with('#')
                });
                told.map(|(number, line)| {
                    header(line).ok_or_else(|| DestinationError::Header {
                        path: path.clone(),
                        line: number + 1,
                    })
                })
                .collect()
            }
        }
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let is_word = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| secret(&format!("Bearer {token}")))?
}

/// A line of a file of headers. What says how long a body is, or what is in it, is the sender's to say.
fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    const OWN: [&str; 6] = [
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
    ];
    let (name, value) = line.split_once(':')?;
    let name: HeaderName = name.trim().parse().ok()?;
    let value = secret(value.trim())?;
    (!OWN.contains(&name.as_str())).then_some((name, value))
}

fn secret(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reads a file that a destination names.
fn text(path: &Path, is_secret: bool) -> Result<String, DestinationError> {
    let failed = |source| DestinationError::Read {
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

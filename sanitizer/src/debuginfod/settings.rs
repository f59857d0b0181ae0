//! What the environment says, by the names that debuginfod-client-config(7) has; the limits where it says nothing are ours.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::cache::Reserve;
use crate::{http::Server, reader::HeaderReader};

/// How long a server may take to answer, or to go on.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a file may take. A report waits for it.
const WHOLE: Duration = Duration::from_secs(60);
/// Bytes of a file. Those of browsers have more, and are seldom watched.
const LARGEST: u64 = 512 << 20;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The servers, in the order in which they are asked.
    pub(super) servers: Vec<Server>,
    /// The folder of the cache.
    pub(super) cache: PathBuf,
    /// What of the cache's disk stays free.
    pub(super) reserve: Reserve,
    /// How long a reader may take that is asked for a build id.
    pub(super) reading: Duration,
    /// How long a server may take to answer, or to go on.
    pub(super) answer: Option<Duration>,
    /// How long a file may take.
    pub(super) whole: Option<Duration>,
    /// Bytes of a file.
    pub(super) largest: Option<u64>,
}

impl Settings {
    /// Those of this process's environment; nothing where no server is named.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        Self::read(|name| std::env::var_os(name), &mut |warning| {
            tracing::warn!("{warning}");
        })
    }

    /// The folder of the cache.
    #[must_use]
    pub fn cache(&self) -> &PathBuf {
        &self.cache
    }

    /// How long it takes at most until it is known whether a file can be had, if the disk of the cache answers.
    pub(super) fn longest(&self) -> Option<Duration> {
        let served = self.whole?.saturating_add(self.answer?);
        // What is there may be asked for its build id as well as what comes.
        let read = HeaderReader::longest(self.reading).saturating_add(self.reading);
        Some(served.saturating_add(read))
    }

    /// Reads variables, and tells what is wrong with them.
    pub(super) fn read(
        get: impl Fn(&str) -> Option<OsString>,
        warn: &mut dyn FnMut(String),
    ) -> Option<Self> {
        let text = |name: &str| {
            let value = get(name)?.to_string_lossy().trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let mut servers = Vec::new();
        // What begins with `ima:` says how signatures are looked at, which are for files of packages.
        let urls = text("DEBUGINFOD_URLS")?;
        let urls = urls
            .split_whitespace()
            .filter(|url| !url.starts_with("ima:"));
        for (url, nth) in urls.zip(1..) {
            match Server::new(url) {
                Ok(server) => servers.push(server),
                // It may be a secret, and messages are kept in logs.
                Err(mend) => warn(format!(
                    "address {nth} of DEBUGINFOD_URLS is not asked: {mend}"
                )),
            }
        }
        if servers.is_empty() {
            return None;
        }
        let folder = |name: &str, below: &str| {
            let folder = get(name).filter(|folder| !folder.is_empty())?;
            Some(PathBuf::from(folder).join(below))
        };
        let cache = folder("DEBUGINFOD_CACHE_PATH", "")
            .or_else(|| folder("XDG_CACHE_HOME", "debuginfod_client"))
            .or_else(|| folder("HOME", ".cache/debuginfod_client"));
        let Some(cache) = cache else {
            warn(
                "servers of DEBUGINFOD_URLS are not asked, since there is no folder for what they send: set DEBUGINFOD_CACHE_PATH"
                    .to_owned(),
            );
            return None;
        };
        let mut number = |name: &str, unit: &str, usual: u64| match text(name)?.parse() {
            // As for other clients.
            Ok(0) => Some(None),
            Ok(number) => Some(Some(number)),
            Err(_) => {
                warn(format!(
                    "{name} is no number of {unit}, so it is {usual}: give a whole number, or 0 for no limit"
                ));
                None
            }
        };
        let seconds = |limit: Option<u64>| limit.map(Duration::from_secs);
        Some(Self {
            servers,
            cache,
            reserve: Reserve::USUAL,
            reading: HeaderReader::DEADLINE,
            answer: number("DEBUGINFOD_TIMEOUT", "seconds", ANSWER.as_secs())
                .map_or(Some(ANSWER), seconds),
            whole: number("DEBUGINFOD_MAXTIME", "seconds", WHOLE.as_secs())
                .map_or(Some(WHOLE), seconds),
            largest: number("DEBUGINFOD_MAXSIZE", "bytes", LARGEST).unwrap_or(Some(LARGEST)),
        })
    }
}

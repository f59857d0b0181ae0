//! `[agent]`: where what was found is sent, and where it is kept until then.

use std::path::{Path, PathBuf};

use super::{places::absolute, table::Table};
use crate::{http::Server, outbox::Destination};

/// Where what is not sent yet is kept, unless the file says otherwise.
const OUTBOX: &str = "/var/lib/gwp-race-agent/outbox.db";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Where it is sent; none where nothing is.
    pub collector: Option<Destination>,
    /// Where it is kept until then.
    pub outbox: PathBuf,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            collector: None,
            outbox: OUTBOX.into(),
        }
    }
}

impl Agent {
    /// Reads the table; what is not said or wrong is as it is without it.
    pub(super) fn read(file: &mut Table<'_, '_>) -> Self {
        let mut agent = Self::default();
        let Some(mut table) = file.table("agent") else {
            return agent;
        };
        let server = table.text("collector", |text| Server::new(text).map_err(str::to_owned));
        let token = table.text("token", absolute);
        let authorities = table.text("ca", absolute);
        let certificate = table.text("certificate", absolute);
        let key = table.text("key", absolute);
        let is_insecure = table.truth("insecure").unwrap_or_default();
        agent.outbox = table.text("outbox", absolute).unwrap_or(agent.outbox);
        let is_safe = |server: &Server| !server.is_plain || server.is_here || is_insecure;
        if server.as_ref().is_some_and(|server| !is_safe(server)) {
            table.is_wrong(
                "others can read and change what is sent by http:// on its way: write https://, or insecure = true where the way is safe",
            );
        }
        if certificate.is_some() != key.is_some() {
            table.is_wrong("certificate and key go together: write both, or none");
        }
        table.end();
        agent.collector = server.map(|server| Destination {
            server,
            token,
            authorities,
            identity: certificate.zip(key),
        });
        agent
    }

    /// In a sentence.
    #[must_use]
    pub fn said(&self, socket: Option<&Path>) -> String {
        let Some(collector) = &self.collector else {
            return "Nothing is sent anywhere.".to_owned();
        };
        let by = match (&collector.token, &collector.identity) {
            (Some(_), Some(_)) => "with a token and a certificate",
            (Some(_), None) => "with a token",
            (None, Some(_)) => "with a certificate",
            (None, None) => "without saying who sends",
        };
        let from = match socket {
            Some(socket) => format!("by the agent that listens to {}", socket.display()),
            None => "but nobody hands anything over, since agent of [export] is missing".to_owned(),
        };
        format!(
            "Races are sent to {} {by}, {from}; what is not sent yet is in {}.",
            collector.server.name,
            self.outbox.display()
        )
    }
}

//! `[agent]`: where what was found is sent, and where it is kept until then.

use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{learn::show, places::absolute, table::Table, within};
use crate::cli::duration::parse_duration;
use crate::http::{Destination, Secret, Server};

/// Where what is not sent yet is kept, unless the file says otherwise.
const OUTBOX: &str = "/var/lib/gwp-race-agent/outbox.db";
/// How often figures are sent, unless the file says otherwise.
const INTERVAL: Duration = Duration::from_secs(60);
/// How often they may be.
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Where it is sent; none where nothing is.
    pub collector: Option<Destination>,
    /// Where it is kept until then.
    pub outbox: PathBuf,
    /// Where figures are sent, and an event for each new race.
    pub otlp: Option<Otlp>,
    /// The address at which Prometheus is told figures.
    pub metrics: Option<SocketAddr>,
}

/// `[agent.otlp]`: a collector of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// Where it is.
    pub destination: Destination,
    /// How often figures are sent.
    pub interval: Duration,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            collector: None,
            outbox: OUTBOX.into(),
            otlp: None,
            metrics: None,
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
        let token = table.text("token", absolute).map(Secret::Token);
        agent.collector = destination(&mut table, "collector", token);
        agent.outbox = table.text("outbox", absolute).unwrap_or(agent.outbox);
        agent.metrics = table.text("metrics", address);
        agent.otlp = table.table("otlp").and_then(otlp);
        table.end();
        agent
    }

    /// The servers to which something is sent.
    pub fn destinations(&self) -> impl Iterator<Item = &Destination> {
        let otlp = self.otlp.iter().map(|otlp| &otlp.destination);
        self.collector.iter().chain(otlp)
    }

    /// In a sentence or some.
    #[must_use]
    pub fn said(&self, socket: Option<&Path>) -> String {
        if self.collector.is_none() && self.otlp.is_none() {
            return "Nothing is sent anywhere.".to_owned();
        }
        let outbox = self.outbox.display();
        let mut said = match (&self.collector, socket) {
            (Some(collector), Some(socket)) => format!(
                "Races are sent to {}, by the agent that listens to {}; what is not sent yet is in {outbox}.",
                way(collector),
                socket.display()
            ),
            (None, Some(socket)) => format!(
                "Races go to the agent that listens to {}, which sends them to no other machine as such; what is not sent yet is in {outbox}.",
                socket.display()
            ),
            (Some(collector), None) => format!(
                "Races would be sent to {}, but nobody hands anything over, since agent of [export] is missing: add it.",
                way(collector)
            ),
            (None, None) => {
                "Nobody hands anything over to the agent, since agent of [export] is missing: add it."
                    .to_owned()
            }
        };
        if let Some(otlp) = &self.otlp {
            said += &format!(
                " An event for each new race, and figures each {}, are sent to {} by OTLP.",
                show(&otlp.interval),
                way(&otlp.destination)
            );
        }
        if let Some(address) = self.metrics {
            said += &format!(" Prometheus finds figures at http://{address}/metrics.");
        }
        said
    }
}

/// A server, and by what it knows who sends.
fn way(destination: &Destination) -> String {
    let by = match (&destination.secret, &destination.identity) {
        (Some(Secret::Token(_)), Some(_)) => "with a token and a certificate",
        (Some(Secret::Token(_)), None) => "with a token",
        (Some(Secret::Headers(_)), Some(_)) => "with headers and a certificate",
        (Some(Secret::Headers(_)), None) => "with headers",
        (None, Some(_)) => "with a certificate",
        (None, None) => "without saying who sends",
    };
    format!("{} {by}", destination.server.name)
}

/// Reads what a table says of a server, which `key` names.
fn destination(
    table: &mut Table<'_, '_>,
    key: &'static str,
    secret: Option<Secret>,
) -> Option<Destination> {
    let server = table.text(key, |text| Server::new(text).map_err(str::to_owned));
    let authorities = table.text("ca", absolute);
    let certificate = table.text("certificate", absolute);
    let private = table.text("key", absolute);
    let is_insecure = table.truth("insecure").unwrap_or_default();
    let is_safe = |server: &Server| !server.is_plain || server.is_here || is_insecure;
    if server.as_ref().is_some_and(|server| !is_safe(server)) {
        table.is_wrong(
            "others can read and change what is sent by http:// on its way: write https://, or insecure = true where the way is safe",
        );
    }
    if certificate.is_some() != private.is_some() {
        table.is_wrong("certificate and key go together: write both, or none");
    }
    server.map(|server| Destination {
        server,
        secret,
        authorities,
        identity: certificate.zip(private),
    })
}

fn otlp(mut table: Table<'_, '_>) -> Option<Otlp> {
    let has_endpoint = table.has("endpoint");
    let headers = table.text("headers", absolute).map(Secret::Headers);
    let destination = destination(&mut table, "endpoint", headers);
    let interval = table.text("interval", |text| {
        let time = parse_duration(text)?;
        within(time, &INTERVALS, show)
    });
    if !has_endpoint {
        table.is_wrong(
            "nothing is sent without endpoint: write endpoint = \"https://HOST:4318\", or leave the table out",
        );
    }
    table.end();
    destination.map(|destination| Otlp {
        destination,
        interval: interval.unwrap_or(INTERVAL),
    })
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write an address and a port, such as 127.0.0.1:9464 or [::]:9464".to_owned())
}

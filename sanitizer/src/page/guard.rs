//! Who is answered, and what browsers are told of every answer.
//!
//! A page on the internet can have its own name resolved to 127.0.0.1 after it was loaded, and then read what is served there as if it were its own (DNS rebinding). It has a name, which
//! browsers tell as `Host`; so addresses, `localhost` and names that the user gives are answered, and no others.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    outcome::Failure,
    users::{Users, name_of},
};
use crate::delivery::{Attempts, Peer};

/// What browsers are to do with pages (<https://www.w3.org/TR/CSP3/>): nothing but show them, in the style that is served beside them.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Who is let in.
#[derive(Default)]
pub struct Door {
    /// Names of hosts under which pages are asked for, besides addresses and `localhost`.
    names: Vec<String>,
    /// Those who may read; everybody, where nobody is named.
    users: Option<Users>,
    /// Who was none of them.
    attempts: Attempts,
}

/// The user who has asked, where there are users: it is among the extensions of requests.
#[derive(Clone, Debug)]
pub(super) struct Who(pub(super) String);

impl Door {
    /// Lets those in who ask for one of these names, besides the usual ones, and are one of these users, where there are any.
    #[must_use]
    pub fn new(names: &[String], users: Option<Users>) -> Self {
        Self {
            names: names.iter().map(|name| name.to_lowercase()).collect(),
            users,
            attempts: Attempts::default(),
        }
    }

    /// Who asks, where there are users.
    fn admit(&self, request: &Request) -> Result<Option<Who>, Failure> {
        let headers = request.headers();
        if !self.is_meant(headers) {
            return Err(Failure::Host);
        }
        match &self.users {
            None => Ok(None),
            Some(users) => match users.who(headers) {
                Some(who) => Ok(Some(Who(who))),
                None => {
                    // Browsers ask without a password first.
                    if headers.contains_key(header::AUTHORIZATION) {
                        let peer = request.extensions().get::<Peer>();
                        let (from, name) = (peer.map(|peer| peer.0.ip()), name_of(headers));
                        self.attempts.tell(from, name.as_deref(), "a password");
                    }
                    Err(Failure::Unknown)
                }
            },
        }
    }

    /// Whether a request is for us: it names one host.
    fn is_meant(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        host.to_str().is_ok_and(|host| self.has(host))
    }

    /// `NAME`, `NAME:PORT`, or an address so.
    fn has(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        if let Some(address) = name.strip_prefix('[') {
            let address = address.strip_suffix(']');
            return address.is_some_and(|address| address.parse::<IpAddr>().is_ok());
        }
        let name = name.to_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.names.contains(&name)
    }
}

/// Answers those who are let in; every answer has the headers.
pub(super) async fn check(
    State(door): State<Arc<Door>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match door.admit(&request) {
        Ok(who) => {
            if let Some(who) = who {
                request.extensions_mut().insert(who);
            }
            next.run(request).await
        }
        Err(failure) => failure.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that addresses, localhost and the names that were given are answered, and nobody's other name.
    #[test]
    fn hosts() {
        let door = Door::new(&["Races.example".to_owned()], None);
        for host in [
            "localhost",
            "LocalHost:7173",
            "127.0.0.1",
            "127.0.0.1:7173",
            "[::1]:7173",
            "[::1]",
            "10.1.2.3:80",
            "races.example:443",
        ] {
            assert!(door.has(host), "{host}");
        }
        for host in [
            "",
            ":7173",
            "evil.example",
            "evil.example:7173",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7173",
            "127.0.0.1:80@evil.example",
            "[evil.example]",
            "[::1",
            "xraces.example",
        ] {
            assert!(!door.has(host), "{host}");
        }
        let mut headers = HeaderMap::new();
        assert!(!door.is_meant(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(door.is_meant(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!door.is_meant(&headers));
    }
}

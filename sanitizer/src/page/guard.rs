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

use super::outcome::Failure;

/// What browsers are to do with pages (<https://www.w3.org/TR/CSP3/>): nothing but show them, in the style that is served beside them.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
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

/// Names of hosts under which pages are asked for, besides addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// These.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_lowercase()).collect())
    }

    /// Whether a request is for us: it names one host.
    fn admit(&self, headers: &HeaderMap) -> bool {
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
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

/// Answers those who are answered; every answer has the headers.
pub(super) async fn check(
    State(names): State<Arc<Names>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if names.admit(request.headers()) {
        next.run(request).await
    } else {
        Failure::Host.into_response()
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
        let names = Names::new(&["Races.example".to_owned()]);
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
            assert!(names.has(host), "{host}");
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
            assert!(!names.has(host), "{host}");
        }
        let mut headers = HeaderMap::new();
        assert!(!names.admit(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(names.admit(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!names.admit(&headers));
    }
}

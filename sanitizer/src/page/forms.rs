//! What browsers send of forms, and how it is known that a form of ours has been sent.
//!
//! A page elsewhere can have the browser of a user send something here, with the user's password. It cannot have it look as if it came from us: browsers tell where a form is
//! (`Origin`, `Sec-Fetch-Site`). And each form of ours has a token which nobody else can read.

use std::{fmt::Write as _, io, time::Duration};

use axum::{
    body::to_bytes,
    extract::Request,
    http::{HeaderMap, header},
};
use rustls::crypto::ring::default_provider;
use tokio::time::timeout;

use super::{
    guard::Who,
    outcome::Failure,
    query::{Fields, fields},
};
use crate::{delivery::Secret, store::digest_of};

/// The name of the field with the token.
const TOKEN: &str = "token";
/// What a form is sent as.
const FORM: &str = "application/x-www-form-urlencoded";
/// The most that a form has, bytes.
const MOST: usize = 16 << 10;
/// It must have come in this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What makes tokens: as long as the server runs they are the same, of each user others.
pub struct FormKey(String);

impl FormKey {
    /// Another one each time.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub fn new() -> io::Result<Self> {
        let mut random = [0; 32];
        let filled = default_provider().secure_random.fill(&mut random);
        filled.map_err(|_| io::Error::other("the kernel gives no random numbers"))?;
        let mut key = String::new();
        for byte in random {
            let _ = write!(key, "{byte:02x}");
        }
        Ok(Self(key))
    }

    /// What the forms of a user have.
    pub(super) fn token(&self, who: &Who) -> String {
        digest_of(&format!("{} {}", self.0, who.0))
    }

    /// The fields of a form of ours that a user has sent.
    pub(super) async fn fields(
        &self,
        who: &Who,
        request: Request,
        known: &[&str],
    ) -> Result<Fields, Failure> {
        if !is_from_here(request.headers()) {
            return Err(Failure::Forged);
        }
        let body = timeout(PATIENCE, to_bytes(request.into_body(), MOST)).await;
        let body = body.map_err(|_| Failure::Busy)?.map_err(|_| {
            Failure::Query(format!(
                "The form has more than {MOST} bytes, or was broken off; send less."
            ))
        })?;
        let known = [known, &[TOKEN]].concat();
        let mut fields = fields(&body, &known)?;
        let token = Secret::new(&self.token(who)).map_err(Failure::Own)?;
        match fields.one(TOKEN)? {
            Some(given) if token.is(&given) => Ok(fields),
            _ => Err(Failure::Forged),
        }
    }
}

/// Whether a browser has sent this of a page of ours, as a form.
fn is_from_here(headers: &HeaderMap) -> bool {
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    };
    let (Some(origin), Some(host)) = (one(header::ORIGIN), one(header::HOST)) else {
        return false;
    };
    let of_page = origin.split_once("://").map(|(_, host)| host);
    let site = headers.get("sec-fetch-site");
    of_page.is_some_and(|of_page| of_page.eq_ignore_ascii_case(host))
        && site.is_none_or(|site| site.as_bytes() == b"same-origin")
        && one(header::CONTENT_TYPE).is_some_and(|form| form == FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// Check that forms count only which a browser has sent of a page of the same host and port.
    #[test]
    fn forms_of_others() {
        const HOST: (&str, &str) = ("host", "localhost:7173");
        const TYPE: (&str, &str) = ("content-type", FORM);
        const ORIGIN: (&str, &str) = ("origin", "http://localhost:7173");
        for good in [
            &[HOST, TYPE, ORIGIN][..],
            &[HOST, TYPE, ORIGIN, ("sec-fetch-site", "same-origin")],
            &[HOST, TYPE, ("origin", "https://LOCALHOST:7173")],
        ] {
            assert!(is_from_here(&headers(good)), "{good:?}");
        }
        for bad in [
            &[HOST, TYPE][..],
            &[HOST, ORIGIN],
            &[TYPE, ORIGIN],
            &[HOST, TYPE, ("origin", "null")],
            &[HOST, TYPE, ("origin", "http://localhost")],
            &[HOST, TYPE, ("origin", "http://localhost:8080")],
            &[HOST, TYPE, ("origin", "https://evil.example")],
            &[
                HOST,
                TYPE,
                ("origin", "https://evil.example/localhost:7173"),
            ],
            &[HOST, TYPE, ORIGIN, ORIGIN],
            &[HOST, TYPE, ORIGIN, ("sec-fetch-site", "cross-site")],
            &[HOST, TYPE, ORIGIN, ("sec-fetch-site", "same-site")],
            &[HOST, TYPE, ORIGIN, ("sec-fetch-site", "none")],
            &[HOST, ORIGIN, ("content-type", "text/plain")],
        ] {
            assert!(!is_from_here(&headers(bad)), "{bad:?}");
        }
    }

    /// Check that each user's token is another one, and that none is good for another server.
    #[test]
    fn tokens_differ() {
        let keys = [FormKey::new().unwrap(), FormKey::new().unwrap()];
        let users = ["ada", "bob"].map(|name| Who(name.to_owned()));
        let tokens = keys
            .iter()
            .flat_map(|key| users.iter().map(|who| key.token(who)));
        let tokens: std::collections::BTreeSet<String> = tokens.collect();
        assert_eq!(tokens.len(), 4);
        assert_eq!(keys[0].token(&users[0]), keys[0].token(&users[0]));
    }
}

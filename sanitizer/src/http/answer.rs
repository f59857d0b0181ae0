//! What a server has answered to something that was sent, in words.

use std::{io::Read as _, time::Duration};

use ureq::{Body, Timeout, http::Response};

use crate::report::clean::clean;

/// Bytes of an answer that are told.
const LONGEST_TOLD: u64 = 512;

/// The status of an answer, and the beginning of what is in it.
pub fn said(answer: &mut Response<Body>) -> String {
    let status = answer.status().as_u16();
    let told = beginning(answer, LONGEST_TOLD);
    let told = String::from_utf8_lossy(&told);
    match told.trim() {
        "" => format!("HTTP status {status}"),
        told => format!("HTTP status {status}: {}", clean(told)),
    }
}

/// So many bytes of what is in an answer; what does not come is left out.
pub fn beginning(answer: &mut Response<Body>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let body = answer.body_mut().as_reader();
    let _ = body.take(most).read_to_end(&mut bytes);
    bytes
}

/// After what time the server wants to be asked again, where it says so in seconds.
#[must_use]
pub fn retry_after(answer: &Response<Body>) -> Option<Duration> {
    let value = answer.headers().get("Retry-After")?;
    let seconds = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Why there was no answer. It does not repeat the address, which `key` of the configuration names.
pub(super) fn failure(error: &ureq::Error, key: &str) -> String {
    let why = match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            return format!("it cannot be reached in time: check {key}, and the network");
        }
        ureq::Error::Timeout(_) => {
            return "it does not answer in time: see what it waits for".to_owned();
        }
        error if is_of_tls(error) => {
            return format!(
                "it does not believe this machine, or is not believed ({}): check ca, certificate and key beside {key}, and the name in its address",
                clean(&error.to_string())
            );
        }
        ureq::Error::BadUri(_) => "its address is none".to_owned(),
        error => error.to_string(),
    };
    format!(
        "it cannot be reached, or has broken off ({}): check {key}, and whether it runs",
        clean(&why)
    )
}

/// Whether one side has refused the other one, or does not understand it.
fn is_of_tls(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error
            .get_ref()
            .is_some_and(|within| within.is::<rustls::Error>()),
        ureq::Error::Rustls(_) => true,
        _ => false,
    }
}

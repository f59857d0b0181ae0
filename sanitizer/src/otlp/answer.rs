//! What a collector of OpenTelemetry answers, by "OTLP/HTTP Response" of the specification: what it takes it says 200 to, also where it has thrown some of it away, which is not to be sent again; only 429, 502, 503 and 504 are to be tried again.

use std::time::Duration;

use serde_json::Value;
use ureq::{Body, http::Response};

use crate::{
    http::{beginning, retry_after, said},
    report::clean::clean,
};

/// Where the configuration names the collector.
pub(super) const KEY: &str = "endpoint of [agent.otlp]";
/// Bytes of an answer that are read.
const LONGEST: u64 = 64 << 10;

/// What has become of what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The collector has it.
    Taken {
        /// So many records or values of it were thrown away.
        rejected: u64,
        /// What it says of that, or of something else that it wants to be known.
        said: Option<String>,
    },
    /// It is not to be sent again.
    Never {
        /// It may be for one of several things, or for their size, so that parts of it may be taken.
        may_be_split: bool,
        /// Why, and what to do.
        why: String,
    },
    /// It is to be sent again; where the collector has said when, not before that.
    Later(Option<Duration>, String),
}

/// What an answer means.
pub(super) fn outcome(mut answer: Response<Body>) -> Outcome {
    let status = answer.status().as_u16();
    let wanted = retry_after(&answer);
    if (200..300).contains(&status) {
        return taken(&beginning(&mut answer, LONGEST));
    }
    let said = said(&mut answer);
    let never = |may_be_split, mend: &str| Outcome::Never {
        may_be_split,
        why: format!("{said}: {mend}"),
    };
    match status {
        429 | 502..=504 => Outcome::Later(wanted, format!("it has no time now ({said})")),
        400 | 413 | 422 => never(
            true,
            "see whether it takes OTLP/HTTP in JSON, and how much at once",
        ),
        401 | 403 | 407 => never(
            false,
            "check headers and certificate of [agent.otlp]: it does not know who sends",
        ),
        300..400 => never(
            false,
            "redirections are not followed: name the address itself as endpoint of [agent.otlp]",
        ),
        404 | 405 => never(
            false,
            "check endpoint of [agent.otlp]: it is what stands before /v1/logs and /v1/metrics, and its port is 4318 as a rule",
        ),
        _ => never(false, "see what is wrong there"),
    }
}

/// What was answered with 200. A page of something that sits on the way is no answer of a collector.
fn taken(body: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(body);
    let answer: Option<Value> = match text.trim() {
        "" => Some(Value::Null),
        text => serde_json::from_str(text).ok(),
    };
    let Some(answer) = answer.filter(|answer| answer.is_object() || answer.is_null()) else {
        let why = format!("what answers is no collector of OpenTelemetry: check {KEY}");
        return Outcome::Later(None, why);
    };
    let partial = &answer["partialSuccess"];
    // A whole number is a text in this JSON, but not all write it so.
    let number = |key: &str| match &partial[key] {
        Value::String(text) => text.parse().unwrap_or(0),
        value => value.as_u64().unwrap_or(0),
    };
    let rejected = number("rejectedLogRecords").max(number("rejectedDataPoints"));
    let said = partial["errorMessage"].as_str().unwrap_or_default();
    Outcome::Taken {
        rejected,
        said: (!said.is_empty()).then(|| {
            let said: String = said.chars().take(512).collect();
            clean(&said).into_owned()
        }),
    }
}

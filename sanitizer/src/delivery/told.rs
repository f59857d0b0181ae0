//! What a host is told that asks what was learned of a build.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    answer::Answer,
    hints::{Hints, Told},
};
use crate::learned::Module;

/// After how many seconds those are to ask again who cannot be told now.
const BUSY: u64 = 30;

/// Answers who has asked with these headers.
pub(super) async fn answer(hints: Option<&Hints>, module: Module, headers: &HeaderMap) -> Response {
    let told = match hints {
        Some(hints) if module.can_be_shared() => hints.of(module).await,
        _ => Told::Nothing,
    };
    let made = match told {
        Told::File(made) => made,
        Told::Nothing => {
            let why = "nobody has learned anything of this build\n";
            return (StatusCode::NOT_FOUND, why).into_response();
        }
        Told::Later => {
            return Answer::Later {
                status: 503,
                seconds: BUSY,
                why: "it cannot be said now what was learned of this build",
            }
            .into_response();
        }
    };
    let tag = format!("\"{}\"", made.tag);
    let known = headers.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    // It has digits alone.
    let tag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""));
    if is_known {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    let form = HeaderValue::from_static("application/octet-stream");
    let about = [(header::CONTENT_TYPE, form), (header::ETAG, tag)];
    (about, made.body.clone()).into_response()
}

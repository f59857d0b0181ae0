//! What has become of a message, and how its sender is told.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the store.
    Taken {
        /// Records that were not there yet.
        records: usize,
        /// Times that were counted of races that the store has not.
        passed_over: u64,
    },
    /// It had been taken before.
    Before,
    /// It will not be taken, however often it is sent.
    Refused {
        /// The status of HTTP.
        status: u16,
        /// Why, and what to do.
        why: String,
    },
    /// Whoever has sent it has no right to.
    Unknown,
    /// It was not taken now, and may be later.
    Later {
        /// The status of HTTP.
        status: u16,
        /// After how many seconds to try again.
        seconds: u64,
        /// Why.
        why: &'static str,
    },
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = |status| StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        match self {
            Self::Taken { .. } | Self::Before => StatusCode::NO_CONTENT.into_response(),
            Self::Refused { status: code, why } => {
                (status(code), format!("{why}\n")).into_response()
            }
            Self::Unknown => {
                let why = "the token is none of those that are taken here: send `Authorization: Bearer TOKEN` with one of the collector's --token-file\n";
                let scheme = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
                (StatusCode::UNAUTHORIZED, scheme, why).into_response()
            }
            Self::Later {
                status: code,
                seconds,
                why,
            } => {
                let after = [(header::RETRY_AFTER, HeaderValue::from(seconds))];
                (status(code), after, format!("{why}; try again later\n")).into_response()
            }
        }
    }
}

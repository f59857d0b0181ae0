//! What comes of a request: a page, or one that says why there is none.

use askama::Template;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};

use super::users;
use crate::{
    report::clean::clean,
    store::{Kind, StoreError},
};

/// Why there is no page.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was asked for wrongly.
    Query(String),
    /// There is none.
    Absent(String),
    /// By another method than those that only read.
    Method,
    /// Under a name that is not ours.
    Host,
    /// By nobody who is let in.
    Unknown,
    /// By a page elsewhere.
    Forged,
    /// Too many others read.
    Busy,
    /// The store could not be read in the time that a page may take; why, for the log alone, as with those below: whoever reads a page is not told where the store is, nor what the database says.
    Late(String),
    /// The store's file is not there any more.
    Moved(StoreError),
    /// The store cannot be read now, and may be later.
    Away(StoreError),
    /// The store cannot be read.
    Store(StoreError),
    /// Something of ours has failed.
    Own(String),
}

impl Failure {
    pub(super) fn absent(text: &str) -> Self {
        Self::Absent(text.to_owned())
    }

    /// The same, which came when the time that it may take was over, or before.
    pub(super) fn after(self, is_over: bool) -> Self {
        match self {
            Self::Away(error) | Self::Store(error) if is_over => Self::Late(error.to_string()),
            other => other,
        }
    }

    /// What the log is told.
    fn cause(&self) -> Option<String> {
        match self {
            Self::Moved(error) | Self::Away(error) | Self::Store(error) => Some(error.to_string()),
            Self::Late(error) | Self::Own(error) => Some(error.clone()),
            _ => None,
        }
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::Query(_) => StatusCode::BAD_REQUEST,
            Self::Absent(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forged => StatusCode::FORBIDDEN,
            Self::Busy | Self::Late(_) | Self::Moved(_) | Self::Away(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Store(_) | Self::Own(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    const fn title(&self) -> &'static str {
        match self {
            Self::Query(_) => "This cannot be asked",
            Self::Absent(_) => "Not found",
            Self::Method => "Not by this method",
            Self::Host => "Not under this name",
            Self::Unknown => "Who are you?",
            Self::Forged => "Not sent by a page of here",
            Self::Busy => "Too many requests at a time",
            Self::Late(_) => "This takes too long",
            Self::Moved(_) => "The store is not there any more",
            Self::Away(_) => "The store cannot be read now",
            Self::Store(_) | Self::Own(_) => "The store cannot be read",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Query(text) | Self::Absent(text) => text.clone(),
            Self::Method => "Ask by GET or HEAD. What is to be thought of races is said by the forms of their pages, where the server lets you (--allow-triage), or by `gwp-race races triage`.".to_owned(),
            Self::Host => "The server answers to addresses, to localhost, and to the names that --ui-name gives it: a page elsewhere could read what is here under another name. Open the page by its address, or start the server with the name.".to_owned(),
            Self::Unknown => "Give a name and a password of those that the server was started with (--ui-users).".to_owned(),
            Self::Forged => "Open the page of the race again and send its form: pages elsewhere can say nothing in your name, and forms of before the server was started count no more.".to_owned(),
            Self::Busy => "Try again in a moment.".to_owned(),
            Self::Late(_) => "The store could not be read in the time that a page may take. Ask for less, such as by a build or a host instead of a text, or try again when others read less; `gwp-race races list` and `show` have no such limit.".to_owned(),
            Self::Moved(_) => "Its file was moved away or deleted, or cannot be opened any more. Put it back: the next request opens it. The server's log tells which it is.".to_owned(),
            Self::Away(_) => "The database is busy, or does not answer. Try again later; the server's log tells why.".to_owned(),
            Self::Store(_) | Self::Own(_) => "The server's log tells why, and what to do.".to_owned(),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            // Something was named that is not there, or not clearly.
            StoreError::Name(text) => Self::Query(text),
            StoreError::File(_) | StoreError::Absent { .. } => Self::Moved(error),
            StoreError::Database {
                kind: Kind::Locked | Kind::Away,
                ..
            } => Self::Away(error),
            other => Self::Store(other),
        }
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage {
    title: &'static str,
    text: String,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let text = self.text();
        if let Some(cause) = self.cause() {
            tracing::warn!("a page was not made ({}): {cause}", self.title());
        }
        let page = FailurePage {
            title: self.title(),
            text: clean(&text).into_owned(),
        };
        // It has nothing that could fail.
        let page = page.render().unwrap_or_default();
        let mut response = (self.status(), Html(page)).into_response();
        let more = match self {
            Self::Busy | Self::Late(_) | Self::Moved(_) | Self::Away(_) => {
                Some((header::RETRY_AFTER, "5"))
            }
            Self::Unknown => Some((header::WWW_AUTHENTICATE, users::SCHEME)),
            _ => None,
        };
        if let Some((name, value)) = more {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A page.
pub(super) fn page(page: &impl Template) -> Result<Response, Failure> {
    let text = page
        .render()
        .map_err(|error| Failure::Own(error.to_string()))?;
    Ok(Html(text).into_response())
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;
    use crate::report::DatabaseFileError;

    /// Check that whoever reads a page is told neither where the store is nor what the database says, whatever has failed, and that what passes is told as such.
    #[test]
    fn failures_tell_no_secrets() {
        let place = || "/secret/races.db".to_owned();
        let of_database = |kind| StoreError::Database {
            what: "store",
            place: place(),
            kind,
            said: "secret words".to_owned(),
            mend: "secret mend",
        };
        let absent = DatabaseFileError::Absent {
            path: place().into(),
        };
        let newer = StoreError::Newer {
            what: "store",
            place: place(),
            version: 9,
            known: 7,
        };
        let record = StoreError::Record {
            place: place(),
            said: "secret".to_owned(),
        };
        let foreign = StoreError::Foreign { place: place() };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for (failure, status) in [
            (Failure::from(of_database(Kind::Locked)), 503),
            (of_database(Kind::Away).into(), 503),
            (of_database(Kind::Other).into(), 500),
            (of_database(Kind::Damaged).into(), 500),
            (Failure::from(of_database(Kind::Other)).after(true), 503),
            (StoreError::from(absent).into(), 503),
            (newer.into(), 500),
            (record.into(), 500),
            (foreign.into(), 500),
            (Failure::Own("secret".to_owned()), 500),
            (Failure::Late("secret".to_owned()), 503),
        ] {
            let told = format!("{failure:?}");
            assert!(told.contains("secret") || told.contains("version"));
            let answer = failure.into_response();
            assert_eq!(answer.status().as_u16(), status, "{told}");
            let text = runtime.block_on(to_bytes(answer.into_body(), 1 << 20));
            let text = String::from_utf8(text.unwrap().to_vec()).unwrap();
            assert!(!text.contains("secret"), "{told}: {text}");
        }
    }
}

//! What comes of a request: a page, or one that says why there is none.

use askama::Template;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};

use super::users;
use crate::{report::clean::clean, store::StoreError};

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
    /// The store cannot be read.
    Store(StoreError),
    /// Something of ours has failed.
    Own(String),
}

impl Failure {
    pub(super) fn absent(text: &str) -> Self {
        Self::Absent(text.to_owned())
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::Query(_) => StatusCode::BAD_REQUEST,
            Self::Absent(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forged => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
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
            Self::Store(_) | Self::Own(_) => "The store cannot be read",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Query(text) | Self::Absent(text) | Self::Own(text) => text.clone(),
            Self::Method => "Ask by GET or HEAD. What is to be thought of races is said by the forms of their pages, where the server lets you (--allow-triage), or by `gwp-race races triage`.".to_owned(),
            Self::Host => "The server answers to addresses, to localhost, and to the names that --ui-name gives it: a page elsewhere could read what is here under another name. Open the page by its address, or start the server with the name.".to_owned(),
            Self::Unknown => "Give a name and a password of those that the server was started with (--ui-users).".to_owned(),
            Self::Forged => "Open the page of the race again and send its form: pages elsewhere can say nothing in your name, and forms of before the server was started count no more.".to_owned(),
            Self::Busy => "Try again in a moment.".to_owned(),
            Self::Store(error) => error.to_string(),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            // Something was named that is not there, or not clearly.
            StoreError::Name(text) => Self::Query(text),
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
        if matches!(self, Self::Store(_) | Self::Own(_)) {
            tracing::warn!("a page was not made: {text}");
        }
        let page = FailurePage {
            title: self.title(),
            text: clean(&text).into_owned(),
        };
        // It has nothing that could fail.
        let page = page.render().unwrap_or_default();
        let mut response = (self.status(), Html(page)).into_response();
        let more = match self {
            Self::Busy => Some((header::RETRY_AFTER, "5")),
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

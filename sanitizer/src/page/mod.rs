//! What a store has of races, as pages for a browser: the list, a race, two builds compared. Rendered here, without scripts, and nothing of them is elsewhere.
//!
//! [`router`] answers requests; who listens, and where, is the caller's concern. All is read only: other methods than GET and HEAD are refused.
//!
//! What programs have named is text, and nothing else: it is shown as in text (`report::clean`), and the templates (`sanitizer/templates`) escape all that they are given.
//! A policy forbids scripts and whatever is elsewhere (`guard.rs`).

mod builds;
mod chart;
mod desk;
mod guard;
mod list;
mod outcome;
mod query;
mod race;
mod shown;
#[cfg(test)]
mod tests;
mod users;

use std::{sync::Arc, time::SystemTime};

use axum::{
    Router,
    extract::{Path, RawQuery, State, rejection::PathRejection},
    http::header,
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};

use crate::store::millis;

pub use desk::Desk;
pub use guard::Door;
use outcome::Failure;
pub use users::Users;

/// That of reports, and what pages have besides.
const STYLE: &str = concat!(
    include_str!("../../templates/report.css"),
    include_str!("../../templates/page.css")
);

/// All pages of a store. They answer those whom the door lets in.
pub fn router(desk: Arc<Desk>, door: Door) -> Router {
    Router::new()
        .route("/", get(list_page))
        .route("/race/{id}", get(race_page))
        .route("/diff", get(builds_page))
        .route("/style.css", get(style))
        .fallback(no_page)
        .method_not_allowed_fallback(no_writing)
        .with_state(desk)
        .layer(middleware::from_fn_with_state(
            Arc::new(door),
            guard::check,
        ))
}

/// Milliseconds since 1970.
fn now() -> i64 {
    millis(SystemTime::now())
}

async fn no_page() -> Failure {
    Failure::absent("There is no such page.")
}

async fn no_writing() -> Failure {
    Failure::Method
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

async fn list_page(
    State(desk): State<Arc<Desk>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = query::List::of(query.as_deref())?;
    let now = now();
    let page = desk
        .read(move |store| Ok(list::ListPage::read(store, asked, now)?))
        .await?;
    outcome::page(&page)
}

async fn race_page(
    State(desk): State<Arc<Desk>>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(id) = id.map_err(|_| Failure::absent("The store has no race of such a name."))?;
    let asked = query::Race::of(query.as_deref())?;
    let now = now();
    let page = desk
        .read(move |store| {
            let details = store.details(&id, asked.record.as_deref(), now)?;
            let details = details.ok_or_else(|| {
                Failure::absent("The store has no such race, or no such record of it: it may have been forgotten, or its name has changed.")
            })?;
            Ok(race::RacePage::new(&details))
        })
        .await?;
    outcome::page(&page)
}

async fn builds_page(
    State(desk): State<Arc<Desk>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = query::Builds::of(query.as_deref())?;
    let now = now();
    let page = desk
        .read(move |store| builds::BuildsPage::read(store, &asked, now))
        .await?;
    outcome::page(&page)
}

//! What a store has of races, as pages for a browser: the list, a race, two builds compared. Rendered here, without scripts, and nothing of them is elsewhere.
//!
//! [`router`] answers requests; who listens, and where, is the caller's concern. All is read only, and other methods than GET and HEAD are refused, unless users may say what is to be thought of races (`triage.rs`).
//!
//! What programs have named is text, and nothing else: it is shown as in text (`report::clean`), and the templates (`sanitizer/templates`) escape all that they are given.
//! A policy forbids scripts and whatever is elsewhere (`guard.rs`).

mod brief;
mod builds;
mod chart;
mod desk;
mod forms;
mod guard;
mod list;
mod outcome;
mod query;
mod race;
mod shown;
#[cfg(test)]
mod tests;
mod triage;
mod users;

use std::{sync::Arc, time::SystemTime};

use axum::{
    Extension, Router,
    extract::{Path, RawQuery, Request, State, rejection::PathRejection},
    http::header,
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};

use crate::store::millis;

pub use desk::Desk;
pub use forms::FormKey;
pub use guard::Door;
use guard::Who;
use outcome::Failure;
use triage::{Deed, Forms};
pub use users::Users;

/// That of reports, and what pages have besides.
const STYLE: &str = concat!(
    include_str!("../../templates/report.css"),
    include_str!("../../templates/page.css")
);

/// What answers to requests.
struct Pages {
    desk: Arc<Desk>,
    /// Nothing where all is read only.
    key: Option<FormKey>,
}

/// All pages of a store. They answer those whom the door lets in; with a key, its users may say what is to be thought of races.
pub fn router(desk: Desk, door: Door, key: Option<FormKey>) -> Router {
    let mut router = Router::new();
    if key.is_some() {
        for (path, deed) in [
            ("/race/{id}/triage", Deed::Triage),
            ("/race/{id}/merge", Deed::Merge),
            ("/race/{id}/split", Deed::Split),
        ] {
            let answer = move |pages, who, id, request| say(deed, pages, who, id, request);
            router = router.route(path, post(answer));
        }
    }
    let pages = Pages {
        desk: Arc::new(desk),
        key,
    };
    router
        .route("/", get(list_page))
        .route("/race/{id}", get(race_page))
        .route("/diff", get(builds_page))
        .route("/style.css", get(style))
        .fallback(no_page)
        .method_not_allowed_fallback(no_writing)
        .with_state(Arc::new(pages))
        .layer(middleware::from_fn_with_state(Arc::new(door), guard::check))
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
    State(pages): State<Arc<Pages>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = query::List::of(query.as_deref())?;
    let now = now();
    let page = pages
        .desk
        .read(move |store| Ok(list::ListPage::read(store, asked, now)?))
        .await?;
    outcome::page(&page)
}

async fn race_page(
    State(pages): State<Arc<Pages>>,
    who: Option<Extension<Who>>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let id = name(id)?;
    let asked = query::Race::of(query.as_deref())?;
    let now = now();
    let desk = Arc::clone(&pages.desk);
    // What is long to read is long to cut to its size, too: both are done in the time that a page has.
    let page = desk
        .read(move |store| {
            let details = store.details(&id, asked.record.as_deref(), now)?;
            let details = details.ok_or_else(|| {
                Failure::absent("The store has no such race, or no such record of it: it may have been forgotten, or its name has changed.")
            })?;
            let may_say = pages.key.as_ref().zip(who);
            let forms = may_say.map(|(key, Extension(who))| Forms::new(key, &who, &details));
            race::RacePage::new(&details, forms).map_err(|error| Failure::Own(error.to_string()))
        })
        .await?;
    outcome::page(&page)
}

/// The race that an address names.
fn name(id: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    match id {
        Ok(Path(id)) => Ok(id),
        Err(_) => Err(Failure::absent(triage::NO_RACE)),
    }
}

async fn say(
    deed: Deed,
    State(pages): State<Arc<Pages>>,
    who: Option<Extension<Who>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Failure> {
    match (&pages.key, who) {
        (Some(key), Some(Extension(who))) => {
            triage::done(deed, &pages.desk, key, who, name(id)?, request).await
        }
        _ => Err(Failure::Method),
    }
}

async fn builds_page(
    State(pages): State<Arc<Pages>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = query::Builds::of(query.as_deref())?;
    let now = now();
    let page = pages
        .desk
        .read(move |store| builds::BuildsPage::read(store, &asked, now))
        .await?;
    outcome::page(&page)
}

//! Saying what is to be thought of a race, merging it into another one, and splitting what was merged: by forms on its page, as by `gwp-race races triage`, `merge` and `split`.

use std::sync::Arc;

use axum::{
    extract::Request,
    response::{IntoResponse, Redirect, Response},
};

use super::{
    desk::Desk,
    forms::FormKey,
    guard::Who,
    now,
    outcome::Failure,
    query::{of_race, wrong},
};
use crate::{
    report::clean::clean,
    store::{Saying, Speaker, Store, Verdict, millis_of_day, page::Details},
};

/// What is told where no race is meant.
pub(super) const NO_RACE: &str =
    "The store has no such race: it may have been forgotten, or its name has changed.";

/// What is done to a race.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Triage,
    Merge,
    Split,
}

/// Does it, as a form has it that this user has sent, and shows the race of which it was said.
pub(super) async fn done(
    deed: Deed,
    desk: &Arc<Desk>,
    key: &FormKey,
    who: Who,
    id: String,
    request: Request,
) -> Result<Response, Failure> {
    let known: &[&str] = match deed {
        Deed::Triage => &["of", "state", "reason", "owner", "until"],
        Deed::Merge => &["into", "reason"],
        Deed::Split => &["name", "reason"],
    };
    let mut fields = key.fields(&who, request, known).await?;
    let now = now();
    let speaker = Speaker {
        who: who.0,
        reason: fields.one("reason")?.unwrap_or_default(),
    };
    let shown = match deed {
        Deed::Triage => {
            let is_of_issue = is_of_issue(fields.one("of")?.as_deref())?;
            let state = fields.one("state")?.unwrap_or_default();
            let state = Verdict::parse(&state)
                .ok_or_else(|| wrong(&format!("{state} is no state; choose one of the form's")))?;
            let expires = fields.one("until")?.map(|date| end_of(&date, now));
            let saying = Saying {
                name: String::new(),
                state,
                reason: speaker.reason,
                owner: Some(fields.one("owner")?.unwrap_or_default()),
                expires: expires.transpose()?,
                who: speaker.who,
            };
            let work = move |store: &mut Store| {
                let Details { row, .. } = details(store, &id, now)?;
                let name = if is_of_issue {
                    row.issue
                } else {
                    row.id.clone()
                };
                store.triage(&Saying { name, ..saying }, now)?;
                Ok(row.id)
            };
            desk.write(work).await?
        }
        Deed::Merge => {
            let into = fields.one("into")?;
            let into = into.ok_or_else(|| wrong("name the race into which it is to be merged"))?;
            let work = move |store: &mut Store| {
                let Details { row, .. } = details(store, &id, now)?;
                let into = store.itself(&into)?;
                let name = if into.starts_with('i') {
                    &row.issue
                } else {
                    &row.id
                };
                let into = store.merge(name, &into, &speaker, now)?;
                Ok(if into.starts_with('i') { row.id } else { into })
            };
            desk.write(work).await?
        }
        Deed::Split => {
            let name = fields.one("name")?;
            let name = name.ok_or_else(|| wrong("name the race that is to be split"))?;
            let work = move |store: &mut Store| {
                let Details { merged, .. } = details(store, &id, now)?;
                if !merged.contains(&name) {
                    return Err(wrong(&format!("{name} is not merged into this race")));
                }
                store.split(&name, &speaker, now)?;
                Ok(name)
            };
            desk.write(work).await?
        }
    };
    Ok(Redirect::to(&of_race(&shown, None)).into_response())
}

fn details(store: &mut Store, id: &str, now: i64) -> Result<Details, Failure> {
    let details = store.details(id, None, now)?;
    details.ok_or_else(|| Failure::absent(NO_RACE))
}

/// Whether something is said of a race's issue.
fn is_of_issue(of: Option<&str>) -> Result<bool, Failure> {
    match of {
        Some("race") => Ok(false),
        Some("issue") => Ok(true),
        _ => Err(wrong("say whether the race or its issue is meant")),
    }
}

/// When a day begins that is still to come, milliseconds since 1970.
fn end_of(date: &str, now: i64) -> Result<i64, Failure> {
    millis_of_day(date).filter(|end| *end > now).ok_or_else(|| {
        wrong(&format!(
            "{date} is no day that is still to come; give one such as 2030-01-31, or none"
        ))
    })
}

/// What the forms of a race's page have.
pub(super) struct Forms {
    pub(super) address: String,
    pub(super) token: String,
    pub(super) who: String,
    /// The words, and whether it is what was said last.
    pub(super) states: Vec<(&'static str, bool)>,
    pub(super) owner: String,
}

impl Forms {
    /// For this user.
    pub(super) fn new(key: &FormKey, who: &Who, details: &Details) -> Self {
        let state = details.row.state.name();
        Self {
            address: of_race(&details.row.id, None),
            token: key.token(who),
            who: clean(&who.0).into_owned(),
            states: (Verdict::ALL.iter())
                .map(|word| (word.name(), word.name() == state))
                .collect(),
            owner: clean(&details.owner).into_owned(),
        }
    }
}

//! The list of races.

use askama::Template;

use super::{
    query::List,
    shown::{RaceRow, count},
};
use crate::{
    report::clean::clean,
    store::{
        State, Store, StoreError,
        page::{Filter, List as Found},
    },
};

/// Races on a page.
const MOST: usize = 50;

/// See the module.
#[derive(Template)]
#[template(path = "list.html")]
pub(super) struct ListPage {
    title: &'static str,
    /// How many races the store has.
    all: String,
    /// All states, and whether they are asked for.
    states: Vec<(&'static str, bool)>,
    build: String,
    host: String,
    text: String,
    /// The name of the issue whose races are shown, as it is sent, and as it is shown.
    issue: Option<String>,
    is_chosen: bool,
    races: Vec<RaceRow>,
    /// Addresses of this list's beginning, and of what follows.
    first: Option<String>,
    next: Option<String>,
}

impl ListPage {
    pub(super) fn read(store: &mut Store, asked: List, now: i64) -> Result<Self, StoreError> {
        let mut filter = asked.filter.clone();
        // The beginning of its name may have been typed.
        let build = filter.build.map(|name| store.build(&name)).transpose()?;
        filter.build = build.map(|build| build.id);
        let found = store.list(&filter, asked.from.as_ref(), MOST, now)?;
        Ok(Self::new(&asked, found))
    }

    fn new(asked: &List, found: Found) -> Self {
        let Filter {
            states,
            build,
            host,
            issue,
            text,
        } = &asked.filter;
        let shown = |text: &Option<String>| clean(text.as_deref().unwrap_or_default()).into_owned();
        let at = |from| List {
            filter: asked.filter.clone(),
            from,
        };
        Self {
            title: "Data races",
            all: count(found.all, "race", "races"),
            states: (State::ALL.iter())
                .map(|state| (state.name(), states.contains(state)))
                .collect(),
            build: shown(build),
            host: shown(host),
            text: shown(text),
            issue: issue.as_deref().map(|issue| clean(issue).into_owned()),
            is_chosen: asked.filter != Filter::default(),
            races: found.races.iter().map(RaceRow::new).collect(),
            first: asked.from.as_ref().map(|_| at(None).address()),
            next: found.next.map(|mark| at(Some(mark)).address()),
        }
    }
}

//! Two builds compared.

use askama::Template;

use super::{
    outcome::Failure,
    query::Builds,
    shown::{BuildName, RaceRow, count},
};
use crate::{
    report::clean::clean,
    store::{
        Store,
        page::{Compared, Difference},
    },
};

/// Races of each kind that are shown.
const MOST: usize = 100;
/// Builds that are offered.
const MOST_BUILDS: usize = 200;

/// See the module.
#[derive(Template)]
#[template(path = "builds.html")]
pub(super) struct BuildsPage {
    title: &'static str,
    /// As they were typed.
    asked: [String; 2],
    /// Those that are compared.
    pair: Option<[BuildName; 2]>,
    kinds: Vec<Kind>,
    /// The newest builds.
    builds: Vec<BuildName>,
}

/// Races that are new, gone, or in both.
struct Kind {
    name: &'static str,
    title: String,
    note: &'static str,
    races: Vec<RaceRow>,
    more: i64,
}

impl BuildsPage {
    pub(super) fn read(store: &mut Store, asked: &Builds, now: i64) -> Result<Self, Failure> {
        let builds = store.newest_builds(MOST_BUILDS)?;
        let (pair, kinds) = match &asked.builds {
            None => (None, Vec::new()),
            Some([a, b]) => {
                let [a, b] = [store.build(a)?, store.build(b)?];
                if a.id == b.id {
                    let text = "These are one build; name two.";
                    return Err(Failure::Query(text.to_owned()));
                }
                let compared = store.compared([&a.id, &b.id], MOST, now)?;
                (Some([a, b]), kinds(&compared))
            }
        };
        let asked = asked.builds.clone().unwrap_or_default();
        Ok(Self {
            title: "Compare builds",
            asked: asked.map(|name| clean(&name).into_owned()),
            pair: pair.map(|pair| pair.each_ref().map(BuildName::new)),
            kinds,
            builds: builds.iter().map(BuildName::new).collect(),
        })
    }
}

fn kinds(compared: &Compared) -> Vec<Kind> {
    let kind = |name, words: &str, note, found: &Difference| Kind {
        name,
        title: format!("{} {words}", count(found.all, "race", "races")),
        note,
        races: found.races.iter().map(RaceRow::new).collect(),
        more: found
            .all
            .saturating_sub_unsigned(found.races.len() as u64)
            .max(0),
    };
    vec![
        kind(
            "new",
            "new in the second build",
            "Caught in the second build, and not in the first.",
            &compared.new,
        ),
        kind(
            "gone",
            "gone since the first build",
            "Caught in the first build, and not in the second. A race that is gone need not be mended: how long each build was watched, and doing what, decides as much.",
            &compared.gone,
        ),
        kind(
            "both",
            "in both builds",
            "Caught in both builds.",
            &compared.both,
        ),
    ]
}

//! What is remembered of a module.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};

use sqlx::{Row as _, any::AnyRow};

use super::{Ledger, MOST_BUILDS, MOST_OF_BUILD, MOST_OF_FUNCTION, Module, ROW};
use crate::{
    hunt::memory::{KnownFunction, Of},
    learned::{Decay, values},
    store::{StoreError, connect::Connection},
};

impl Ledger {
    /// What is left, at a time (ms since 1970), of what was learned of a module and of other builds of it, here and on other machines. What can be no record is left out; so many of those there are.
    ///
    /// # Errors
    /// The ledger cannot be read.
    #[allow(clippy::type_complexity)]
    pub fn remembered(
        &mut self,
        module: &Module,
        now: i64,
    ) -> Result<(Vec<(Of, Vec<KnownFunction>)>, usize), StoreError> {
        let decay = self.decay(now);
        self.with(async |connection| {
            let mut wrong = 0;
            let mut same = Vec::new();
            let mut others = HashMap::<u64, KnownFunction>::new();
            let mut is_whole = false;
            for (build, of) in builds(connection, &module.name).await? {
                let functions = all_of(connection, of, decay, &mut wrong).await?;
                let whole = of.is_whole;
                // Without a build id it may be any.
                if build == module.build && !build.is_empty() {
                    same = functions;
                } else {
                    is_whole |= whole;
                    for (fingerprint, function) in by_code(functions) {
                        others.entry(fingerprint).or_default().add(1.0, &function);
                    }
                }
            }
            let others = others.into_iter();
            let mut others: Vec<_> = others
                .map(|(fingerprint, function)| KnownFunction {
                    at: 0,
                    fingerprint,
                    ..function
                })
                .collect();
            // That a function is there tells which ones are new, and else nothing.
            same.retain(|function| !function.is_untried());
            others.retain(|function| is_whole || !function.is_untried());
            // The same comes out each time.
            others.sort_unstable_by_key(|function| function.fingerprint);
            let all = [(Of::Same, same), (Of::Others { is_whole }, others)];
            Ok((all.into(), wrong))
        })
    }
}

/// What there is of a build.
#[derive(Clone, Copy, Debug, Default)]
struct Build {
    /// Its number, where something was learned of it here.
    own: Option<i64>,
    /// The same, where others have told something.
    hinted: Option<i64>,
    /// All functions of it are known.
    is_whole: bool,
}

/// The builds of a name: what they are called, and what there is of them.
async fn builds(connection: &mut Connection, name: &str) -> sqlx::Result<BTreeMap<String, Build>> {
    let mut builds = BTreeMap::<String, Build>::new();
    for (sql, is_own) in [
        (
            "SELECT id, build, is_whole FROM module WHERE name = $1 ORDER BY used DESC, id DESC LIMIT $2",
            true,
        ),
        (
            "SELECT id, build, 0 FROM hinted WHERE name = $1 ORDER BY told DESC, id DESC LIMIT $2",
            false,
        ),
    ] {
        let rows = sqlx::query(sql).bind(name).bind(MOST_BUILDS);
        for row in rows.fetch_all(&mut *connection).await? {
            let (Ok(id), Ok(build), Ok(whole)) = (row.try_get(0), row.try_get(1), row.try_get(2))
            else {
                continue;
            };
            let whole: i64 = whole;
            let of = builds.entry(build).or_default();
            if is_own {
                (of.own, of.is_whole) = (Some(id), whole == 1);
            } else {
                of.hinted = Some(id);
            }
        }
    }
    Ok(builds)
}

/// What is left of what was learned of the functions of a build. What was learned here may be a part of what others have told, so that nothing is added.
async fn all_of(
    connection: &mut Connection,
    build: Build,
    decay: Decay,
    wrong: &mut usize,
) -> sqlx::Result<Vec<KnownFunction>> {
    let own = match build.own {
        Some(id) => functions(connection, OWN, id, decay, wrong).await?,
        None => Vec::new(),
    };
    let Some(id) = build.hinted else {
        return Ok(own);
    };
    let told = functions(connection, TOLD, id, decay, wrong).await?;
    let told = told.into_iter().map(|function| (function.at, function));
    let mut told: BTreeMap<u64, KnownFunction> = told.collect();
    let mut all: Vec<_> = own
        .into_iter()
        .map(|mut own| {
            if let Some(told) = told.remove(&own.at)
                && told.fingerprint == own.fingerprint
            {
                own.keep_larger(&told);
            }
            own
        })
        .collect();
    all.extend(told.into_values());
    Ok(all)
}

const OWN: &str = "SELECT at, fingerprint, seen_in, seen FROM function
     WHERE module = $1 AND length(seen_in) <= $2 ORDER BY seen DESC, at LIMIT $3";
const TOLD: &str = "SELECT at, fingerprint, seen_in, seen FROM hint
     WHERE module = $1 AND length(seen_in) <= $2 ORDER BY at LIMIT $3";

/// What is left of the functions of a build that a statement has.
async fn functions(
    connection: &mut Connection,
    sql: &'static str,
    module: i64,
    decay: Decay,
    wrong: &mut usize,
) -> sqlx::Result<Vec<KnownFunction>> {
    let rows = sqlx::query(sql)
        .bind(module)
        .bind(MOST_OF_FUNCTION)
        .bind(MOST_OF_BUILD / ROW)
        .fetch_all(connection)
        .await?;
    let functions = rows.iter().filter_map(|row| {
        let function = function(row, decay);
        *wrong += usize::from(function.is_none());
        function
    });
    Ok(functions.collect())
}

/// A record; nothing where it can be none.
fn function(row: &AnyRow, decay: Decay) -> Option<KnownFunction> {
    let at: i64 = row.try_get(0).ok()?;
    let fingerprint: i64 = row.try_get(1).ok()?;
    let (at, fingerprint) = (u64::try_from(at).ok()?, fingerprint.cast_unsigned());
    let mut function = KnownFunction::of(at, fingerprint, row.try_get(2).ok()?)?;
    let is_sound = function
        .sites
        .iter()
        .all(|(_, parts)| values(parts).is_some());
    function.add(decay.left(row.try_get(3).ok()?), &KnownFunction::default());
    is_sound.then_some(function)
}

/// What was seen in functions, by their code. Of several that have the same, which is short as a rule and differs in what it names, nobody can tell which is which: of those it is known
/// only that they are there.
fn by_code(functions: Vec<KnownFunction>) -> HashMap<u64, KnownFunction> {
    let mut by_code = HashMap::new();
    for function in functions {
        match by_code.entry(function.fingerprint) {
            Entry::Vacant(entry) => drop(entry.insert(function)),
            Entry::Occupied(mut entry) => *entry.get_mut() = KnownFunction::default(),
        }
    }
    by_code
}

//! What is remembered of a module.

use std::collections::{HashMap, hash_map::Entry};

use sqlx::{Row as _, any::AnyRow};

use super::{Decay, Ledger, MOST_BUILDS, MOST_OF_BUILD, MOST_OF_FUNCTION, Module, ROW, read};
use crate::{
    hunt::memory::{KnownFunction, Of, counts_of},
    store::{StoreError, connect::Connection},
};

impl Ledger {
    /// What is left, at a time (ms since 1970), of what was learned of a module and of other builds of it. What can be no record is left out; so many of those there are.
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
            for (id, build, whole) in builds(connection, &module.name).await? {
                let functions = functions(connection, id, decay, &mut wrong).await?;
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

/// The builds of a name, the last one first: their numbers, what they are called, and whether all functions of them are known.
async fn builds(connection: &mut Connection, name: &str) -> sqlx::Result<Vec<(i64, String, bool)>> {
    let rows = sqlx::query(
        "SELECT id, build, is_whole FROM module WHERE name = $1 ORDER BY used DESC, id DESC LIMIT $2",
    )
    .bind(name)
    .bind(MOST_BUILDS)
    .fetch_all(connection)
    .await?;
    let build = |row: AnyRow| {
        let is_whole: i64 = row.try_get(2).ok()?;
        Some((row.try_get(0).ok()?, row.try_get(1).ok()?, is_whole == 1))
    };
    Ok(rows.into_iter().filter_map(build).collect())
}

/// What is left of what was learned of the functions of a build.
async fn functions(
    connection: &mut Connection,
    module: i64,
    decay: Decay,
    wrong: &mut usize,
) -> sqlx::Result<Vec<KnownFunction>> {
    let rows = sqlx::query(
        "SELECT at, fingerprint, seen_in, seen FROM function
         WHERE module = $1 AND length(seen_in) <= $2 ORDER BY seen DESC, at LIMIT $3",
    )
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
    let (sites, raced) = read(row.try_get(2).ok()?)?;
    let is_sound = sites.iter().all(|(_, parts)| counts_of(parts).is_some());
    let mut function = KnownFunction {
        at: u64::try_from(at).ok()?,
        fingerprint: fingerprint.cast_unsigned(),
        sites,
        raced,
    };
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

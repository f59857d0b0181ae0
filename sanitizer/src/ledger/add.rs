//! Adding what was gained.

use std::collections::BTreeMap;

use super::{
    Ledger, MOST_BUILDS, MOST_MODULES, MOST_OF_BUILD, MOST_OF_FUNCTION, Module, ROW, SCHEMA,
};
use crate::{
    hunt::memory::{KnownFunction, in_parts},
    learned::{Decay, Learned},
    store::{
        StoreError,
        connect::{Connection, begin},
    },
};

/// Functions of which something was gained and not written yet, at most.
const MOST: usize = 1 << 16;

/// What was gained, and is still to be written.
#[derive(Debug, Default)]
pub struct Gains {
    modules: BTreeMap<Module, Gain>,
    functions: usize,
}

/// What was gained of a module.
#[derive(Debug, Default)]
struct Gain {
    /// By where they are.
    functions: BTreeMap<u64, KnownFunction>,
    /// All functions of it are known by now.
    is_whole: bool,
}

impl Gains {
    /// Adds what was gained of a module. What is too much is left out: it is learned again.
    pub fn add(&mut self, module: &Module, functions: Vec<KnownFunction>, is_whole: bool) {
        let gain = self.modules.entry(module.clone()).or_default();
        gain.is_whole |= is_whole;
        for function in functions {
            match gain.functions.get_mut(&function.at) {
                Some(before) if before.fingerprint == function.fingerprint => {
                    before.add(1.0, &function);
                }
                _ if self.functions < MOST => {
                    self.functions += 1;
                    gain.functions.insert(function.at, function);
                }
                _ => gain.is_whole = false,
            }
        }
    }

    /// Adds what else was gained of functions in which something was seen, of modules of which other machines can be told: at most so many functions are waiting to be told then.
    pub fn add_shared(&mut self, other: &Self, most: usize) {
        for (module, gain) in &other.modules {
            let seen = gain.functions.values();
            let seen = seen.filter(|function| !function.is_untried());
            if module.can_be_shared() && self.functions < most {
                let left = most - self.functions;
                self.add(module, seen.take(left).cloned().collect(), false);
            }
        }
    }

    /// As it is told to others, at a time, ms since 1970.
    #[must_use]
    pub fn into_learned(self, at: i64) -> Vec<Learned> {
        let modules = self.modules.into_iter();
        let parts = modules.flat_map(|(module, gain)| {
            let functions = gain.functions.into_values();
            let parts = in_parts(functions.filter_map(shared).collect()).into_iter();
            parts.map(move |functions| Learned {
                module: module.clone(),
                at,
                functions,
            })
        });
        parts.collect()
    }

    /// Whether there is nothing to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

/// A function as others are told of it; nothing where they would not take it.
fn shared(gained: KnownFunction) -> Option<KnownFunction> {
    let mut function = KnownFunction {
        at: gained.at,
        fingerprint: gained.fingerprint,
        ..KnownFunction::default()
    };
    function.add(1.0, &gained);
    let size = i64::try_from(function.seen_in().ok()?.len()).ok()?;
    let is_taken = function.is_sound() && !function.is_untried() && size <= MOST_OF_FUNCTION;
    is_taken.then_some(function)
}

impl Ledger {
    /// Writes what was gained until a time, ms since 1970: all or nothing.
    ///
    /// # Errors
    /// The ledger cannot be written to.
    pub fn add(&mut self, gains: &Gains, now: i64) -> Result<(), StoreError> {
        let decay = self.decay(now);
        self.with(async |connection| {
            let mut all = begin(connection, &SCHEMA).await?;
            for (module, gain) in &gains.modules {
                let id = see(&mut all, module, now).await?;
                for function in gain.functions.values() {
                    put(&mut all, id, function, decay).await?;
                }
                let is_cut = cut(&mut all, id).await?;
                if gain.is_whole || is_cut {
                    sqlx::query("UPDATE module SET is_whole = $1 WHERE id = $2")
                        .bind(i64::from(gain.is_whole && !is_cut))
                        .bind(id)
                        .execute(&mut *all)
                        .await?;
                }
            }
            forget(&mut all).await?;
            all.commit().await
        })
    }
}

/// A module is there from now on, and was used at a time: its number.
async fn see(connection: &mut Connection, module: &Module, now: i64) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "INSERT INTO module (name, build, is_whole, used) VALUES ($1, $2, 0, $3)
         ON CONFLICT (name, build) DO UPDATE SET used = excluded.used RETURNING id",
    )
    .bind(&module.name)
    .bind(&module.build)
    .bind(now)
    .fetch_one(connection)
    .await
}

/// Adds what was seen in a function to what is left of what was seen there before.
async fn put(
    connection: &mut Connection,
    module: i64,
    function: &KnownFunction,
    decay: Decay,
) -> sqlx::Result<()> {
    let at = function.at.cast_signed();
    let fingerprint = function.fingerprint.cast_signed();
    let mut known = KnownFunction::default();
    if !function.is_untried() {
        let before: Option<(Vec<u8>, i64)> = sqlx::query_as(
            "SELECT seen_in, seen FROM function WHERE module = $1 AND at = $2 AND fingerprint = $3
             AND typeof(seen_in) = 'blob' AND typeof(seen) = 'integer'",
        )
        .bind(module)
        .bind(at)
        .bind(fingerprint)
        .fetch_optional(&mut *connection)
        .await?;
        let mut part = 0.0;
        if let Some((bytes, seen)) = before {
            known = KnownFunction::of(0, 0, &bytes).unwrap_or_default();
            part = decay.left(seen);
        }
        known.add(part, function);
    }
    let bytes = known.seen_in();
    let bytes = bytes.map_err(|error| sqlx::Error::Encode(error.into()))?;
    if bytes.len() as i64 > MOST_OF_FUNCTION {
        return Ok(());
    }
    // That a function was looked at changes nothing of what was seen in it.
    sqlx::query(
        "INSERT INTO function (module, at, fingerprint, seen_in, seen) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (module, at) DO UPDATE
         SET fingerprint = excluded.fingerprint, seen_in = excluded.seen_in, seen = excluded.seen
         WHERE function.fingerprint <> excluded.fingerprint OR $6",
    )
    .bind(module)
    .bind(at)
    .bind(fingerprint)
    .bind(bytes)
    .bind(decay.now)
    .bind(!function.is_untried())
    .execute(connection)
    .await
    .map(drop)
}

/// Forgets the functions of a module of which nothing was learned for longest, where there are too many; whether there were.
async fn cut(connection: &mut Connection, module: i64) -> sqlx::Result<bool> {
    let mut is_cut = false;
    loop {
        let (count, weight): (i64, i64) = sqlx::query_as(
            "SELECT count(*), coalesce(sum(length(seen_in) + $1), 0) FROM function WHERE module = $2",
        )
        .bind(ROW)
        .bind(module)
        .fetch_one(&mut *connection)
        .await?;
        if weight <= MOST_OF_BUILD || count == 0 {
            return Ok(is_cut);
        }
        is_cut = true;
        // An eighth at a time.
        sqlx::query(
            "DELETE FROM function WHERE module = $1 AND at IN
             (SELECT at FROM function WHERE module = $1 ORDER BY seen, length(seen_in), at LIMIT $2)",
        )
        .bind(module)
        .bind(count / 8 + 1)
        .execute(&mut *connection)
        .await?;
    }
}

/// Forgets the builds that were not used for longest, where there are too many.
async fn forget(connection: &mut Connection) -> sqlx::Result<()> {
    let too_many = sqlx::query(
        "DELETE FROM module WHERE id IN (SELECT id FROM
         (SELECT id, row_number() OVER (PARTITION BY name ORDER BY used DESC, id DESC) AS of_name,
          row_number() OVER (ORDER BY used DESC, id DESC) AS of_all FROM module)
         WHERE of_name > $1 OR of_all > $2)",
    );
    let done = too_many
        .bind(MOST_BUILDS)
        .bind(MOST_MODULES)
        .execute(&mut *connection)
        .await?;
    if done.rows_affected() > 0 {
        sqlx::query("DELETE FROM function WHERE module NOT IN (SELECT id FROM module)")
            .execute(connection)
            .await?;
    }
    Ok(())
}

//! Adding what a host has learned. How many statements that takes has a bound, whatever it says (`learned::check`): two for each 64 functions, of which a message has 2,048, and some twenty for each of its eight builds.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, Row as _, any::AnyRow};

use super::{
    HALF_LIFE, LONGEST, MOST_BUILDS, MOST_OF_ALL, MOST_OF_BUILD, ROW, forget, id_of, name_of,
};
use crate::{
    learned::{Decay, KnownFunction, Learned, MOST_OF_FUNCTION, Module},
    store::connect::Connection,
};

/// Functions that one statement is about.
const AT_ONCE: usize = 64;
/// What is counted of a site, by all hosts together.
const MOST_COUNTED: f32 = 1e9;
/// Where a function has other code than what was told of the same place before, one of both is wrong: what is there stays for so long, milliseconds.
const STAYS: i64 = 86_400_000;

/// A function, as it is there.
struct Before {
    function: Option<KnownFunction>,
    fingerprint: u64,
    seen: i64,
    bytes: i64,
}

/// A function, as it is to be.
struct After {
    at: u64,
    fingerprint: u64,
    seen_in: Vec<u8>,
}

/// Adds what a host has learned, of which it is checked that it can be, at a time, milliseconds since 1970.
pub(in crate::store) async fn add_all(
    connection: &mut Connection,
    all: &[Learned],
    now: i64,
) -> sqlx::Result<()> {
    // All who write do it in one order: nobody waits for somebody who waits for him.
    let mut all: Vec<&Learned> = all.iter().collect();
    all.sort_by_key(|learned| id_of(&learned.module));
    if all.is_empty() {
        return Ok(());
    }
    // A clock that was ahead once would have the builds of then stay for as long.
    sqlx::query("UPDATE learned_build SET told = $1 WHERE told > $1")
        .bind(now)
        .execute(&mut *connection)
        .await?;
    for learned in all {
        add(connection, learned, now).await?;
    }
    Ok(())
}

async fn add(connection: &mut Connection, learned: &Learned, now: i64) -> sqlx::Result<()> {
    let id = id_of(&learned.module);
    if !see(connection, id, &learned.module, now).await? {
        return Ok(());
    }
    let decay = Decay::new(now, HALF_LIFE);
    let left = decay.left(learned.at);
    let mut more = 0;
    for functions in learned.functions.chunks(AT_ONCE) {
        let before = before(connection, id, functions).await?;
        let mut after = Vec::new();
        for function in functions {
            let before = before.get(&function.at);
            let seen_in = sum(before, function, left, decay);
            let Some(seen_in) = seen_in.map_err(|error| sqlx::Error::Encode(error.into()))? else {
                continue;
            };
            more += size(&seen_in) - before.map_or(0, |before| before.bytes);
            after.push(After {
                at: function.at,
                fingerprint: function.fingerprint,
                seen_in,
            });
        }
        put(connection, id, &after, now).await?;
    }
    let bytes: i64 = sqlx::query_scalar(
        "UPDATE learned_build SET bytes = bytes + $2 WHERE id = $1 RETURNING bytes",
    )
    .bind(id)
    .bind(more)
    .fetch_one(&mut *connection)
    .await?;
    if bytes > MOST_OF_BUILD {
        cut(connection, id).await?;
    }
    Ok(())
}

fn size(seen_in: &[u8]) -> i64 {
    i64::try_from(seen_in.len()).map_or(i64::MAX / 2, |bytes| bytes + ROW)
}

/// A build is there from now on; whether it is this one. Where there are too many, the one of which nothing was told for longest is forgotten.
async fn see(
    connection: &mut Connection,
    id: i64,
    module: &Module,
    now: i64,
) -> sqlx::Result<bool> {
    let name = name_of(module);
    let known: Option<(String, String)> =
        sqlx::query_as("SELECT name, build FROM learned_build WHERE id = $1")
            .bind(id)
            .fetch_optional(&mut *connection)
            .await?;
    if let Some((known, build)) = known {
        if known != name || build != module.build {
            return Ok(false);
        }
        sqlx::query("UPDATE learned_build SET told = $2 WHERE id = $1")
            .bind(id)
            .bind(now)
            .execute(connection)
            .await?;
        return Ok(true);
    }
    let of_name: Option<i64> = sqlx::query_scalar(
        "SELECT id FROM learned_build WHERE name = $1 ORDER BY told DESC, id LIMIT 1 OFFSET $2",
    )
    .bind(&name)
    .bind(MOST_BUILDS - 1)
    .fetch_optional(&mut *connection)
    .await?;
    let of_all: Option<i64> =
        sqlx::query_scalar("SELECT id FROM learned_build ORDER BY told DESC, id LIMIT 1 OFFSET $1")
            .bind(MOST_OF_ALL - 1)
            .fetch_optional(&mut *connection)
            .await?;
    let old: Option<i64> =
        sqlx::query_scalar("SELECT id FROM learned_build WHERE told < $1 ORDER BY told LIMIT 1")
            .bind(now.saturating_sub(LONGEST))
            .fetch_optional(&mut *connection)
            .await?;
    for id in [of_name, of_all, old].into_iter().flatten() {
        forget(connection, id).await?;
    }
    sqlx::query(
        "INSERT INTO learned_build (id, name, build, bytes, told) VALUES ($1, $2, $3, 0, $4)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(id)
    .bind(name)
    .bind(&module.build)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(true)
}

/// What there is of functions, by their places.
async fn before(
    connection: &mut Connection,
    id: i64,
    functions: &[KnownFunction],
) -> sqlx::Result<HashMap<u64, Before>> {
    let places = (0..functions.len()).map(|place| format!("${}", place + 2));
    let sql = format!(
        "SELECT place, fingerprint, seen_in, seen FROM learned WHERE build = $1 AND place IN ({})",
        places.collect::<Vec<_>>().join(", ")
    );
    let mut select = sqlx::query(AssertSqlSafe(sql)).bind(id);
    for function in functions {
        select = select.bind(function.at.cast_signed());
    }
    let row = |row: &AnyRow| {
        let (at, fingerprint): (i64, i64) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
        let (at, fingerprint) = (at.cast_unsigned(), fingerprint.cast_unsigned());
        // What can be none is as if it was not there, but for its room.
        let seen_in: Vec<u8> = row.try_get(2).unwrap_or_default();
        let before = Before {
            function: KnownFunction::of(at, fingerprint, &seen_in),
            fingerprint,
            seen: row.try_get(3).unwrap_or_default(),
            bytes: size(&seen_in),
        };
        Some((at, before))
    };
    let rows = select.fetch_all(connection).await?;
    Ok(rows.iter().filter_map(row).collect())
}

/// What is kept of a function from now on; nothing where that stays as it is.
fn sum(
    before: Option<&Before>,
    function: &KnownFunction,
    left: f64,
    decay: Decay,
) -> Result<Option<Vec<u8>>, postcard::Error> {
    let mut sum = KnownFunction::default();
    match before {
        Some(before) if before.fingerprint == function.fingerprint => {
            if let Some(known) = &before.function {
                sum.add(1.0, known);
                sum.add(decay.left(before.seen), &KnownFunction::default());
            }
        }
        Some(before) if (0..STAYS).contains(&decay.now.saturating_sub(before.seen)) => {
            return Ok(None);
        }
        _ => {}
    }
    let mut more = function.clone();
    more.add(left, &KnownFunction::default());
    sum.add(1.0, &more);
    sum.end_at(MOST_COUNTED);
    let seen_in = sum.seen_in()?;
    let is_kept = !sum.is_untried() && seen_in.len() <= MOST_OF_FUNCTION;
    Ok(is_kept.then_some(seen_in))
}

async fn put(
    connection: &mut Connection,
    id: i64,
    functions: &[After],
    now: i64,
) -> sqlx::Result<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let values = (0..functions.len()).map(|row| {
        let first = 3 + 3 * row;
        format!("($1, ${first}, ${}, ${}, $2)", first + 1, first + 2)
    });
    let sql = format!(
        "INSERT INTO learned (build, place, fingerprint, seen_in, seen) VALUES {}
         ON CONFLICT (build, place) DO UPDATE SET fingerprint = excluded.fingerprint, seen_in = excluded.seen_in, seen = excluded.seen",
        values.collect::<Vec<_>>().join(", ")
    );
    let mut insert = sqlx::query(AssertSqlSafe(sql)).bind(id).bind(now);
    for function in functions {
        insert = insert
            .bind(function.at.cast_signed())
            .bind(function.fingerprint.cast_signed())
            .bind(function.seen_in.clone());
    }
    insert.execute(connection).await.map(drop)
}

/// Forgets an eighth of the functions of a build, those of which nothing was told for longest, or as many as are too many.
async fn cut(connection: &mut Connection, id: i64) -> sqlx::Result<()> {
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT place, CAST(length(seen_in) AS BIGINT) FROM learned WHERE build = $1 ORDER BY seen DESC, place",
    )
    .bind(id)
    .fetch_all(&mut *connection)
    .await?;
    let mut bytes = 0;
    let is_kept = |(_, length): &&(i64, i64)| {
        bytes += length + ROW;
        bytes <= MOST_OF_BUILD / 8 * 7
    };
    let kept = rows.iter().take_while(is_kept).count();
    for some in rows.get(kept..).unwrap_or_default().chunks(AT_ONCE * 8) {
        let places = (0..some.len()).map(|place| format!("${}", place + 2));
        let sql = format!(
            "DELETE FROM learned WHERE build = $1 AND place IN ({})",
            places.collect::<Vec<_>>().join(", ")
        );
        let mut delete = sqlx::query(AssertSqlSafe(sql)).bind(id);
        for (place, _) in some {
            delete = delete.bind(*place);
        }
        delete.execute(&mut *connection).await?;
    }
    let bytes: i64 = (rows.iter().take(kept))
        .map(|(_, length)| length + ROW)
        .sum();
    sqlx::query("UPDATE learned_build SET bytes = $2 WHERE id = $1")
        .bind(id)
        .bind(bytes)
        .execute(connection)
        .await
        .map(drop)
}

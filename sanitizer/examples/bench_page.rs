//! Measures how long pages about a large store take: `cargo xtask bench page`.
//!
//! The store is made by SQL in bulk: races with sightings of 60 days on 5,000 machines and in 200 builds, some races far more often than others.

use std::{
    error::Error,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use gwp_race::{
    page::{Desk, Door, router},
    store::{Access, Address, Store, hour, millis},
};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use tower_service::Service as _;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Each page is asked for so often.
const RUNS: usize = 15;

/// What begins the sums of the migration that makes summaries.
const PAGE: &str = include_str!("../migrations/0006_page.sql");

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("name a file")?);
    let races: i64 = arguments.next().ok_or("how many races?")?.parse()?;
    let sightings: i64 = arguments.next().ok_or("how many sightings?")?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let address: Address = format!("sqlite:{}", path.display()).parse()?;
    if !path.exists() {
        drop(Store::open(&address, Access::Create)?);
        let begin = Instant::now();
        runtime.block_on(fill(&path, races, sightings))?;
        println!("made in {:.0} s", begin.elapsed().as_secs_f64());
    }
    println!("{} MB", std::fs::metadata(&path)?.len() / 1_000_000);
    let pages = router(Desk::open(address)?, Door::default(), None);
    for (name, address) in pages_of(races) {
        let (mut times, mut bytes, mut status) = (Vec::new(), 0, 0);
        for _ in 0..RUNS {
            let begin = Instant::now();
            (status, bytes) = runtime.block_on(ask(&pages, &address))?;
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let at = |share: usize| ms(times.get(times.len() * share / 100));
        println!(
            "{name:<40} {status} {bytes:>8} bytes, median {:>6.1} ms, longest {:>6.1} ms",
            at(50),
            at(99)
        );
    }
    Ok(())
}

fn ms(time: Option<&Duration>) -> f64 {
    time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// Names of races are numbers.
fn race(number: i64) -> String {
    format!("r3:{number:032x}")
}

fn pages_of(races: i64) -> Vec<(&'static str, String)> {
    vec![
        ("list", "/".to_owned()),
        ("list, new ones", "/?state=new".to_owned()),
        ("list, benign ones", "/?state=benign".to_owned()),
        ("list, fixed ones", "/?state=fixed".to_owned()),
        ("list, regressed ones", "/?state=regressed".to_owned()),
        (
            "list by text, which few have",
            "/?text=function_123_".to_owned(),
        ),
        ("list by text, which all have", "/?text=function".to_owned()),
        ("list by text, which none has", "/?text=nothing".to_owned()),
        (
            "list by a build with many races",
            "/?build=00000000b0".to_owned(),
        ),
        (
            "list by a build with few",
            "/?build=00000000b190".to_owned(),
        ),
        ("list by host", "/?host=host17".to_owned()),
        (
            "list by text, build, host and state",
            "/?text=function&build=00000000b0&host=host17&state=new".to_owned(),
        ),
        ("race that was caught most", format!("/race/{}", race(0))),
        (
            "race that was caught rarely",
            format!("/race/{}", race(races - 1)),
        ),
        ("builds", "/diff".to_owned()),
        (
            "two builds with many races",
            "/diff?a=00000000b0&b=00000000b1".to_owned(),
        ),
    ]
}

async fn ask(pages: &Router, address: &str) -> Outcome<(u16, usize)> {
    let request = Request::builder().uri(address).header("host", "localhost");
    let answer = pages.clone().call(request.body(Body::empty())?).await?;
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 1 << 26).await?;
    Ok((status, body.len()))
}

async fn fill(path: &Path, races: i64, sightings: i64) -> Outcome<()> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .pragma("synchronous", "OFF")
        .pragma("cache_size", "-500000");
    let mut all = options.connect().await?;
    let now = millis(SystemTime::now());
    let today = hour(now);
    for sql in [
        "BEGIN IMMEDIATE".to_owned(),
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {races} / 2)
             INSERT INTO issue SELECT printf('i3:%032x', i), printf('function_%d_of_module_%d / other_function_%d', i, i % 97, i) FROM n"
        ),
        // The times are set below.
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {races} - 1)
             INSERT INTO race (id, issue, variable, places, first_seen, last_seen)
             SELECT printf('r3:%032x', i), printf('i3:%032x', i / 2), printf('variable_%d.member', i),
                 printf('/src/module_%d/file_%d.cc:%d in function_%d / /src/other.cc:7 in other_function', i % 97, i % 1013, i % 800, i), 0, 0 FROM n"
        ),
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199)
             INSERT INTO build SELECT printf('00000000b%d', i), printf('/opt/bin/program%d', i % 10), {now} - (200 - i) * 86400000, {now} FROM n"
        ),
        // Squares: the first races are caught by far most often.
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {sightings} - 1)
             INSERT INTO sighting (race, build, host, cgroup, container, hour, times)
             SELECT printf('r3:%032x', CAST(1.0 * (i * 7919 % {sightings}) * (i * 7919 % {sightings}) / {sightings} / {sightings} * {races} AS INTEGER)),
                 printf('00000000b%d', i * 31 % 199 * (i * 31 % 199) / 199), printf('host%d', i * 17 % 5000), '', '', {today} - i % 1440, 1 + i % 3
             FROM n WHERE true ON CONFLICT DO NOTHING"
        ),
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {races} / 20)
             INSERT INTO triage SELECT i + 1, printf('r3:%032x', i * 20), CASE i % 4 WHEN 0 THEN 'fixed' WHEN 1 THEN 'benign' ELSE 'acknowledged' END,
                 'why', '', NULL, 'somebody', {now} - i % 300 * 86400000 FROM n"
        ),
    ] {
        execute(&mut all, sql).await?;
    }
    for sql in PAGE.split(';').map(without_comments) {
        if sql.starts_with("INSERT") || sql.starts_with("UPDATE") {
            execute(&mut all, sql).await?;
        }
    }
    for sql in [
        "UPDATE race SET
             first_seen = coalesce((SELECT min(first_hour) * 3600000 FROM race_build WHERE race_build.race = race.id), 0),
             last_seen = coalesce((SELECT max(last_hour) * 3600000 FROM race_build WHERE race_build.race = race.id), 0)",
        "UPDATE race SET first_caught = first_seen, last_caught = last_seen",
        "COMMIT",
    ] {
        execute(&mut all, sql.to_owned()).await?;
    }
    all.close().await?;
    Ok(())
}

fn without_comments(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

async fn execute(all: &mut SqliteConnection, sql: String) -> Outcome<()> {
    sqlx::query(AssertSqlSafe(sql)).execute(all).await?;
    Ok(())
}

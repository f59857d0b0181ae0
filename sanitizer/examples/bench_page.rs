//! Measures how long pages about a large store take: `cargo xtask bench page`.
//!
//! The store, by whatever engine, is made by SQL in bulk: races with sightings of 60 days on 5,000 machines and in 200 builds, some races far more often than others. The report of a race, which somebody has caught before, is the
//! one that is kept of those races that have one.

use std::{
    error::Error,
    time::{Duration, Instant, SystemTime},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use gwp_race::{
    page::{Desk, Door, router},
    store::{Access, Address, Store, hour, millis, page::Filter},
};
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _};
use tower_service::Service as _;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Each page is asked for so often.
const RUNS: usize = 15;
/// Races that have reports; of the others they are all told by name alone.
const WITH_REPORTS: i64 = 2_000;
/// Reports that are kept of a race and build.
const REPORTS: i64 = 20;
/// Builds.
const BUILDS: i64 = 200;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("name a store")?;
    let races: i64 = arguments.next().ok_or("how many races?")?.parse()?;
    if races < 3 {
        return Err("give three races at least".into());
    }
    let sightings: i64 = arguments.next().ok_or("how many sightings?")?.parse()?;
    let report = arguments
        .next()
        .ok_or("name a file with the report of a race")?;
    let report = std::fs::read_to_string(report)?;
    let report = report
        .lines()
        .find(|line| line.contains("\"type\":\"race\""));
    let report = report.ok_or("there is no race in that file")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let address: Address = name.parse()?;
    let there = Store::open(&address, Access::Create)?.list(&Filter::default(), None, 1, 0)?;
    sqlx::any::install_default_drivers();
    let begin = Instant::now();
    if there.all == 0 {
        runtime.block_on(fill(&name, races, sightings, report))?;
        println!("made in {:.0} s", begin.elapsed().as_secs_f64());
    }
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

/// What engines call differently.
struct Dialect {
    /// 32 hexadecimal digits of a number.
    hex: fn(&str) -> String,
    before: &'static str,
    /// What the engine does of itself after a while.
    after: &'static str,
    size: &'static str,
}

const SQLITE: Dialect = Dialect {
    hex: |number| format!("printf('%032x', {number})"),
    before: "PRAGMA synchronous = OFF; PRAGMA cache_size = -500000",
    after: "ANALYZE",
    size: "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
};

const POSTGRES: Dialect = Dialect {
    hex: |number| format!("lpad(to_hex({number}), 32, '0')"),
    before: "SET synchronous_commit = off; SET work_mem = '256MB'",
    after: "VACUUM ANALYZE",
    size: "SELECT pg_database_size(current_database())",
};

/// Numbers from 0 to this one, without it.
fn numbers(end: i64) -> String {
    format!(
        "WITH RECURSIVE n (i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {end} - 1)"
    )
}

async fn fill(name: &str, races: i64, sightings: i64, report: &str) -> Outcome<()> {
    let dialect = if name.starts_with("sqlite:") {
        SQLITE
    } else {
        POSTGRES
    };
    let mut all = AnyConnection::connect(name).await?;
    sqlx::raw_sql(dialect.before).execute(&mut all).await?;
    let mut transaction = all.begin().await?;
    let now = millis(SystemTime::now());
    let today = hour(now);
    let [of_race, of_issue] = ["i", "i / 2"].map(dialect.hex);
    // Squares: the first races are caught by far most often.
    let caught = format!(
        "(i * 7919 % {sightings}) * (i * 7919 % {sightings}) / {sightings} * {races} / {sightings}"
    );
    let caught = (dialect.hex)(&caught);
    for sql in [
        format!(
            "{} INSERT INTO issue (id, functions)
             SELECT 'i3:' || {of_race}, 'function_' || i || '_of_module_' || (i % 97) || ' / other_function_' || i FROM n",
            numbers(races / 2 + 1)
        ),
        // The times are set below.
        format!(
            "{} INSERT INTO race (id, issue, variable, places, first_seen, last_seen)
             SELECT 'r3:' || {of_race}, 'i3:' || {of_issue}, 'variable_' || i || '.member',
                 '/src/module_' || (i % 97) || '/file_' || (i % 1013) || '.cc:' || (i % 800) || ' in function_' || i || ' / /src/other.cc:7 in other_function', 0, 0 FROM n",
            numbers(races)
        ),
        format!(
            "{} INSERT INTO build (id, exe, first_seen, last_seen)
             SELECT '00000000b' || i, '/opt/bin/program' || (i % 10), {now} - ({BUILDS} - i) * 86400000, {now} FROM n",
            numbers(BUILDS)
        ),
        format!(
            "{} INSERT INTO sighting (race, build, host, cgroup, container, hour, times)
             SELECT 'r3:' || {caught}, '00000000b' || (i * 31 % 199 * (i * 31 % 199) / 199), 'host' || (i * 17 % 5000), '', '', {today} - i % 1440, 1 + i % 3
             FROM n WHERE true ON CONFLICT DO NOTHING",
            numbers(sightings)
        ),
        format!(
            "{} INSERT INTO triage (number, name, state, reason, owner, expires, who, said)
             SELECT i + 1, 'r3:' || {}, CASE i % 4 WHEN 0 THEN 'fixed' WHEN 1 THEN 'benign' ELSE 'acknowledged' END,
                 'why', '', NULL, 'somebody', {now} - i % 300 * 86400000 FROM n",
            numbers(races / 20),
            (dialect.hex)("i * 20")
        ),
    ] {
        execute(&mut transaction, sql).await?;
    }
    for sql in reports(&dialect, races, now) {
        sqlx::query(AssertSqlSafe(sql))
            .bind(report)
            .execute(&mut *transaction)
            .await?;
    }
    // Without a look at each race: nothing is known yet of what is in the table, by which engines choose an index.
    let times = "UPDATE race SET first_seen = seen.first * 3600000, last_seen = seen.last * 3600000
         FROM (SELECT race, min(hour) AS first, max(hour) AS last FROM sighting GROUP BY race) AS seen WHERE seen.race = race.id";
    execute(&mut transaction, times.to_owned()).await?;
    transaction.commit().await?;
    let begin = Instant::now();
    // Which makes the summaries.
    drop(Store::open(&name.parse()?, Access::Existing)?);
    println!("summed up in {:.0} s", begin.elapsed().as_secs_f64());
    execute(&mut all, dialect.after.to_owned()).await?;
    let bytes: i64 = sqlx::query_scalar(dialect.size).fetch_one(&mut all).await?;
    println!("{} MB", bytes / 1_000_000);
    all.close().await?;
    Ok(())
}

/// What gives races their reports: the first ones have as many as are kept of a build, the very first one in each build, and the last one too.
fn reports(dialect: &Dialect, races: i64, now: i64) -> [String; 3] {
    let some = WITH_REPORTS.min(races - 1);
    let of = |name: &str, number: i64, race: &str, build: &str| {
        format!(
            "{} INSERT INTO evidence (digest, race, build, caught, record)
             SELECT '{name}' || {}, 'r3:' || {}, '00000000b' || ({build}), {now} - i % 1440 * 3600000, $1 FROM n",
            numbers(number),
            (dialect.hex)("i"),
            (dialect.hex)(race),
        )
    };
    [
        of(
            "a",
            REPORTS * (some - 1),
            &format!("1 + i / {REPORTS}"),
            &format!("i / {REPORTS} % {BUILDS}"),
        ),
        of("b", REPORTS * BUILDS, "0 * i", &format!("i / {REPORTS}")),
        of("c", REPORTS, &format!("{races} - 1 + 0 * i"), "0"),
    ]
}

async fn execute(all: &mut AnyConnection, sql: String) -> Outcome<()> {
    sqlx::query(AssertSqlSafe(sql)).execute(all).await?;
    Ok(())
}

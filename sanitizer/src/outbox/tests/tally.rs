//! How much there is.

use super::{otlp::BOTH, *};
use crate::outbox::tally::{COUNTS, EVENT_BYTES, OLDEST, Tally, event_bytes};

/// Check that what is counted is what is there, through all that may happen to it.
#[test]
fn counts_are_what_is_there() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, 40_000).unwrap().for_whom(BOTH);
    let is_right = |outbox: &mut Outbox| {
        let (tally, bytes, there) = outbox
            .with(async |connection| {
                let tally = Tally::of(connection).await?;
                let bytes = event_bytes(connection).await?;
                let there: (i64, i64, i64, Option<i64>) = sqlx::query_as(
                    "SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM event WHERE refused = 0), (SELECT coalesce(sum(length(CAST(record AS BLOB))), 0) FROM event),
                     (SELECT min(put) FROM (SELECT put FROM item UNION ALL SELECT put FROM message UNION ALL SELECT put FROM event WHERE refused = 0))",
                )
                .fetch_one(connection)
                .await?;
                Ok((tally, bytes, there))
            })
            .unwrap();
        let told = (tally.items, tally.events, bytes, tally.oldest);
        assert_eq!(told, there);
        there
    };
    assert_eq!(is_right(&mut outbox), (0, 0, 0, None));
    let mut sequence = 0;
    for round in 0..4 {
        for nth in 0..8 {
            sequence += 1;
            let batch = caught(&race(&format!("v{}", nth * (round % 2)), round * 8 + nth));
            outbox.take(&handed(sequence, batch)).unwrap();
            is_right(&mut outbox);
        }
        if let Some(events) = outbox.events(2).unwrap() {
            match round {
                0 => outbox.events_refused(events.last).unwrap(),
                _ => outbox.events_taken(events.last, 1).unwrap(),
            }
        }
        is_right(&mut outbox);
        if round == 1 {
            drop(outbox);
            outbox = Outbox::open(&path, 40_000).unwrap().for_whom(BOTH);
        }
        let sealed = outbox.message().unwrap().unwrap();
        is_right(&mut outbox);
        match round {
            0 => outbox.set_aside(sealed.sequence, "no").unwrap(),
            1 => {}
            _ => outbox.taken(sealed.sequence).unwrap(),
        }
        is_right(&mut outbox);
    }
    let mut outbox = outbox.for_whom(Wants {
        messages: false,
        events: false,
    });
    outbox.let_go().unwrap();
    assert_eq!(is_right(&mut outbox), (0, 0, 0, None));
}

/// Check that whoever looks how much there is reads indexes alone, and what is the oldest some rows of them.
#[test]
fn looks_are_bounded() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let oldest = OLDEST.map(|statement| (statement, true));
    let counts = COUNTS.into_iter().chain([EVENT_BYTES]);
    let counts = counts.map(|statement| (statement, false));
    for (statement, is_first) in oldest.into_iter().chain(counts) {
        let plan = outbox.with(async |connection| {
            let explain = format!("EXPLAIN QUERY PLAN {statement}");
            let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(sqlx::AssertSqlSafe(explain))
                .fetch_all(connection)
                .await?;
            Ok(steps)
        });
        for (.., step) in plan.unwrap() {
            let is_index = step.contains("USING COVERING INDEX");
            let is_bounded = is_index && (!is_first || step.contains("SEARCH"));
            // That has one row at most.
            let is_small = step.ends_with("message");
            assert!(is_bounded || is_small, "{statement}: {step}");
        }
    }
}

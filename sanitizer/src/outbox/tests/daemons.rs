//! What daemons tell of what they have done.

use super::*;
use crate::metrics::{check, prometheus};

fn done(times: u64) -> DaemonFigures {
    DaemonFigures {
        leases_begun: 3 * times,
        leases_ended: [("quiet", 2 * times), ("spent", times)]
            .map(|(why, times)| (why.to_owned(), times))
            .into(),
        stalls: 100 * times,
        cost_ns: 1_500_000_000 * times,
        overhead_ns: 7 * times,
        now: Some(DaemonNow {
            processes: 5,
            leases: 2,
            is_held: false,
        }),
    }
}

/// Check that what a daemon tells again counts once, and that what all daemons have done adds up, however many there were, also for who opens the outbox anew; that what one does is known of the last one that has told it, as long as it tells it; and that
/// all of it is told to Prometheus.
#[test]
fn what_daemons_have_done() {
    let (_folder, path) = scratch();
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    assert_eq!(outbox.figures().unwrap().daemon, None);
    for times in 1..=4 {
        outbox.told("one", &done(times)).unwrap();
        outbox.told("one", &done(times)).unwrap();
        assert_eq!(outbox.figures().unwrap().daemon, Some(done(times)));
    }
    for nth in 1..=30 {
        let name = format!("daemon {nth}");
        outbox.told(&name, &done(1)).unwrap();
        outbox.told(&name, &done(2)).unwrap();
        let figures = outbox.figures().unwrap().daemon.unwrap();
        assert_eq!(figures, done(4 + 2 * nth), "{nth}");
    }
    let rows = outbox.with(async |connection| {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM daemon")
            .fetch_one(connection)
            .await
    });
    assert!(rows.unwrap() < 10);
    drop(outbox);
    let mut outbox = Outbox::open(&path, MUCH).unwrap();
    let figures = outbox.figures().unwrap();
    assert_eq!(figures.daemon, Some(done(64)));
    let page = prometheus(&figures.metrics());
    assert_eq!(check(&page), [""; 0]);
    for line in [
        "gwp_race_daemon_leases_begun_total 192",
        "gwp_race_daemon_leases_ended_total{reason=\"quiet\"} 128",
        "gwp_race_daemon_leases_ended_total{reason=\"ignored\"} 0",
        "gwp_race_daemon_stalls_total 6400",
        "gwp_race_daemon_cost_seconds_total{of=\"leases\"} 96.000000000",
        "gwp_race_daemon_cost_seconds_total{of=\"otherwise\"} 0.000000448",
        "gwp_race_daemon_up 1",
        "gwp_race_daemon_processes 5",
        "gwp_race_daemon_leases_active 2",
        "gwp_race_daemon_held 0",
    ] {
        assert!(page.lines().any(|one| one == line), "{line}: {page}");
    }
    // As if it had fallen silent.
    let older = outbox.with(async |connection| {
        sqlx::query("UPDATE daemon SET told = told - 600000")
            .execute(connection)
            .await
            .map(drop)
    });
    older.unwrap();
    let figures = outbox.figures().unwrap();
    assert_eq!(
        figures.daemon,
        Some(DaemonFigures {
            now: None,
            ..done(64)
        })
    );
    let page = prometheus(&figures.metrics());
    assert!(page.contains("\ngwp_race_daemon_up 0\n"), "{page}");
    assert!(!page.contains("gwp_race_daemon_processes"), "{page}");
}

//! Pages of stores that are slow, large, or not there any more.

use std::{fs, sync::mpsc};

use tokio::time::timeout;

use super::*;

/// Check that what takes too long is told so, and keeps nobody else from reading, be it that who has asked for it has gone.
#[test]
fn slow_reads_stop_nobody() {
    const LIMIT: Duration = Duration::from_secs(1);
    let (_folder, address, _) = usual();
    let desk = Arc::new(Desk::open(address).unwrap().within(LIMIT));
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let slow = || {
        let (desk, released) = (Arc::clone(&desk), Arc::clone(&released));
        async move {
            let work = move |_: &mut Store| {
                let _ = released.lock().unwrap().recv();
                Ok(())
            };
            desk.read(work).await
        }
    };
    runtime().block_on(async {
        let gone = timeout(Duration::from_millis(100), slow());
        let (gone, waits) = tokio::join!(gone, slow());
        assert!(gone.is_err());
        let Err(failure @ Failure::Late(_)) = waits else {
            panic!("{waits:?}");
        };
        let answer = failure.into_response();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers().contains_key("retry-after"));
        let builds = desk.read(|store| Ok(store.newest_builds(9)?.len())).await;
        assert_eq!(builds.unwrap(), 2);
        drop(release);
    });
}

/// Check that a store which was moved away or deleted is shown no more, that whoever asks is not told where it was, and that it is shown again when it is back.
#[test]
fn stores_that_are_moved_away() {
    let (_folder, address, races) = usual();
    let pages = pages_of(&address);
    good(&pages, "/");
    let path = address.path().unwrap();
    let away = path.with_extension("away");
    fs::rename(path, &away).unwrap();
    for page in ["/", "/diff", &format!("/race/{}", races[0].identity.race)] {
        let answer = ask(&pages, "GET", page, Some("localhost"));
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
        assert!(answer.text.contains("moved away"), "{}", answer.text);
        assert!(!answer.text.contains("races.db"), "{}", answer.text);
        assert!(answer.headers.contains_key("retry-after"));
    }
    fs::rename(&away, path).unwrap();
    good(&pages, "/");
    // Another one in its place is shown, and nothing of the first.
    fs::rename(path, &away).unwrap();
    drop(Store::open(&address, Access::Create).unwrap());
    let list = good(&pages, "/");
    assert!(body(&list).contains("The store has 0 races."));
}

/// Check that a race which somebody has made as large as may be is shown in part, with what was left out, and that lists with it stay short.
#[test]
fn huge_races_are_shown_in_part() {
    let mut race = sample::race();
    let mut frame = race.accesses[0].stack[0].clone();
    frame.function = Some("<\u{1b}>".repeat(2000));
    race.accesses[0].stack = vec![frame; 400];
    race.notes = vec!["note ".repeat(5000); 200];
    race.exe = "/e".repeat(1 << 20);
    race.location.name = Some("v".repeat(1 << 20));
    race.identity = identity(&race);
    let name = "w".repeat(1 << 20);
    let (_folder, address) = store_of(std::slice::from_ref(&race), &name);
    let pages = pages_of(&address);
    let path = format!("/race/{}", race.identity.race);
    let (document, text) = page(&pages, &path, StatusCode::OK);
    assert!(text.len() < 4 << 20, "{}", text.len());
    let shown = body(&document);
    for part in ["136 notes, 336 frames", "races show", "The stack goes on."] {
        assert!(shown.contains(part), "{part}: {shown:.3000}");
    }
    assert_eq!(all(&document, ".side.stalled .stack > li").len(), 64);
    for path in ["/", "/diff"] {
        let (_, text) = page(&pages, path, StatusCode::OK);
        assert!(text.len() < 100_000, "{path}: {}", text.len());
    }
}

//! Following real processes.

use super::*;
use crate::kernel::descent::News;
use crate::reader::testing::header_reader;
use crate::tracee::testing::Child;

/// Its children end with it.
const FORKS_WHEN_TOLD: &str = "#include <stdio.h>\n#include <unistd.h>\n#include <sys/prctl.h>\n#include <sys/wait.h>\n\
    int main() { while (getchar() != EOF) { if (!fork()) { prctl(PR_SET_PDEATHSIG, 9); puts(\"forked\"); fflush(stdout); pause(); } } }";

/// Follows a covered program that forks for each line.
fn followed() -> (Descendants, Child) {
    let mut descendants = Descendants::new(1.0, false, header_reader());
    let child = Child::run(
        FORKS_WHEN_TOLD,
        &["-fexperimental-sanitize-metadata=atomics"],
    );
    descendants.follow(id(&child));
    (descendants, child)
}

fn id(child: &Child) -> u32 {
    child.pid().as_raw().cast_unsigned()
}

/// Waits for the next one that is worth a tracer.
async fn worthy(descendants: &mut Descendants) -> u32 {
    let found = async {
        loop {
            if let Some(pid) = descendants.next().await {
                break pid;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found)
        .await
        .unwrap()
}

fn end(pid: u32) {
    nix::sys::signal::kill(as_pid(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

/// Check that those that found no place are told by name, whether they have ended or still wait, and those not that got one.
#[tokio::test]
async fn who_finds_no_place_is_told() {
    let (mut descendants, mut child) = followed();
    let mut pids = Vec::new();
    for _ in 0..3 {
        child.send_line("");
        child.wait_for_line("forked");
        pids.push(worthy(&mut descendants).await);
    }
    descendants.begin(pids[0]);
    let later = Duration::from_secs(100);
    descendants.try_again(pids[1], Reason::Limit, later);
    descendants.try_again(pids[2], Reason::Limit, later);
    assert!(descendants.has_prospects());
    end(pids[0]);
    end(pids[1]);
    descendants.finish();
    end(pids[2]);
    let not_watched = descendants.into_not_watched();
    let name = child.exe();
    let expected = [(
        name.to_str().unwrap().to_owned(),
        [("limit".to_owned(), 2)].into(),
    )];
    assert_eq!(not_watched, expected.into());
}

/// Check that who is there is found when it was not told of, and who is not is forgotten.
#[tokio::test]
async fn what_was_not_told_is_found() {
    let (mut descendants, mut child) = followed();
    child.send_line("");
    child.wait_for_line("forked");
    // Nothing is told where `/proc` is searched.
    let Some(lost) = descendants.source.lose() else {
        return;
    };
    // That it executes its program may be told as well, if it has just done so.
    let mut forks = lost.iter().filter_map(|news| match news {
        News::Forked { pid, .. } => Some(*pid),
        _ => None,
    });
    let (Some(pid), None) = (forks.next(), forks.next()) else {
        panic!("{lost:?}");
    };
    let now = Instant::now();
    descendants.catch_up(&[id(&child), pid].into(), now);
    assert_eq!(worthy(&mut descendants).await, pid);
    descendants.begin(pid);
    end(pid);
    descendants.catch_up(&[id(&child)].into(), now);
    assert_eq!(descendants.relatives.len(), 1);
    descendants.finish();
    assert!(descendants.into_not_watched().is_empty());
}

/// Check that a program is looked at no sooner again and again where tracers came too late for it.
#[test]
fn tracers_that_come_too_late_are_fewer() {
    let mut programs = Programs::default();
    let executed = Executed::by(std::process::id()).unwrap();
    let file = programs.met(executed, "");
    let now = Instant::now();
    assert_eq!(programs.least_life(file, true, now), Duration::ZERO);
    for _ in 0..20 {
        programs.traced(file, true, false, now);
    }
    assert_eq!(
        programs.least_life(file, true, now),
        Duration::from_millis(640)
    );
    assert_eq!(programs.least_life(file, false, now), Duration::ZERO);
    // What was so a while ago may not be so any more.
    let later = now + Duration::from_secs(12);
    let life = programs.least_life(file, true, later);
    assert_eq!(life, Duration::from_millis(160));
    for _ in 0..5 {
        programs.traced(file, true, true, now);
    }
    assert_eq!(programs.least_life(file, true, now), Duration::ZERO);
}

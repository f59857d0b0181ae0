//! Hunts in recorded programs: in one that is made up, of which is known what must come of it, and in a real one.

use std::time::Duration;

use super::{index::Index, scene::replay, summary};
use crate::hunt::{
    plan::{
        Planner,
        action::{Action, ActionId, Deed, Then},
        choose::ByWorth,
        event::{AddressId, Event as Heard, FunctionId, SiteFacts, SiteId, StallEnd, What},
        purse::Purse,
    },
    world::{
        costs::{MOST_ADVANCE_S, NESTED},
        program::After,
        simulation::{Hunt, Run},
        trace::{
            clocks::Held,
            format::Access,
            recorded::{Event, Race, Recorded, Site},
        },
    },
};

const MINUTE: Hunt = Hunt {
    costs: NESTED,
    share: 0.02,
    length_s: 60.0,
    seed: 1,
    has_probes: false,
};
/// What three sites access, and a lock that is held at the first two.
const SHARED: u64 = 0x1000;
const LOCK: u64 = 0x100;

/// In each tenth of a second a thread comes to the first site at 10 ms, another one to the second at 12 ms, both with the lock; the latter to the third without it at
/// 14 ms, and the first thread to the fourth one at 16 ms, which races with that.
fn made() -> Recorded {
    let site = |number: u64| Site {
        facts: SiteFacts {
            site: SiteId(number),
            function: FunctionId(number),
            can_be_probed: false,
            writes: true,
            variable: None,
            member: None,
        },
        offset: 0x100 + number as u32,
        line: Some(number as u32),
        comes: 10.0,
    };
    let event = |ms: u64, site: u32, thread: u16, locks: u32| Event {
        time_ns: ms * 1_000_000,
        access: Access {
            address: SHARED,
            length: 8,
            writes: true,
            atomic: false,
        },
        site,
        thread,
        locks,
    };
    Recorded {
        name: "made".to_owned(),
        processors: 2.0,
        beside_sites: 0.5,
        length_ns: 100_000_000,
        sites: (0..4).map(site).collect(),
        plain: 4,
        lines: (0..4).map(|line| format!("made.c:{line}")).collect(),
        races: vec![Race {
            sites: [2, 3],
            times: 1,
            nearest_ns: 2_000_000,
        }],
        locks: vec![
            Vec::new(),
            vec![Held {
                lock: LOCK,
                shared: false,
            }],
        ],
        events: vec![
            event(10, 0, 0, 1),
            event(12, 1, 1, 1),
            event(14, 2, 1, 0),
            event(16, 3, 0, 0),
        ],
        samples: vec![vec![2]],
    }
}

/// Waits at a site again and again, and keeps what it hears of that.
struct Again {
    deed: Deed,
    heard: Vec<What>,
}

impl Planner for Again {
    fn observe(&mut self, _now: Duration, heard: &Heard) {
        if heard.of.is_some() {
            self.heard.push(heard.what.clone());
        }
    }

    fn decide(&mut self, _now: Duration, purse: &Purse) -> Action {
        let time = Duration::from_secs_f64(purse.until_left_s());
        let deed = if purse.left_s > 0.0 {
            self.deed.clone()
        } else {
            Deed::Rest { time }
        };
        Action {
            id: ActionId(1),
            deed,
        }
    }
}

fn heard(site: u64, then: Then, wanted: Option<AddressId>) -> (Run, Vec<What>) {
    let recorded = made();
    let index = Index::of(&recorded);
    let deed = Deed::Wait {
        site: SiteId(site),
        at_most: Duration::from_millis(200),
        then,
        wanted,
    };
    let mut again = Again {
        deed,
        heard: Vec::new(),
    };
    let run = replay(&index, &mut again, &MINUTE, 20);
    (run, again.heard)
}

const HOLD: Then = Then::Hold {
    at_most: Duration::from_millis(5),
    look: Duration::ZERO,
};

fn ends(heard: &[What]) -> Vec<&StallEnd> {
    let ends = heard.iter().filter_map(|what| match what {
        What::Held { end, .. } => Some(end),
        _ => None,
    });
    ends.collect()
}

/// Check that whoever is held meets who comes then and races, once as news and that is all there is to be found.
#[test]
fn races_are_met() {
    let (run, heard) = heard(2, HOLD, None);
    assert_eq!((run.finds.len(), run.stalls), (1, 1));
    let ends = ends(&heard);
    let [StallEnd::Hit(partners)] = ends.as_slice() else {
        panic!("{ends:?}");
    };
    let [partner] = partners.as_slice() else {
        panic!("{partners:?}");
    };
    // After the bytes were watched, which takes a while.
    let after = partner.after.as_secs_f64();
    assert_eq!(partner.site, SiteId(3));
    assert!((after - (2e-3 - NESTED.delay_s)).abs() < 1e-6, "{after}");
}

/// Check that who waits for a lock of a held thread ends that stall, and that whoever holds the lock is let pass from then on; and that nobody races who
/// comes later, or in an order.
#[test]
fn locks_are_learned() {
    let (run, heard) = heard(0, HOLD, None);
    assert!(run.finds.is_empty());
    assert!(
        matches!(ends(&heard).as_slice(), [StallEnd::Locked]),
        "{heard:?}"
    );
    assert!(heard.iter().any(|what| matches!(what, What::LetGo { .. })));
}

/// Check that a look shows all who use the bytes, whatever orders them, each once; and that what is watched in advance shows them before.
#[test]
fn looks_show_all_users() {
    let sites = |what: &What| match what {
        What::Looked { users, .. } | What::Passed { users, .. } => {
            Some(users.iter().map(|user| user.site.0).collect::<Vec<_>>())
        }
        _ => None,
    };
    let look = Then::Look(Duration::from_millis(20));
    let (run, looked) = heard(0, look, None);
    assert_eq!(run.stalls, 0);
    assert_eq!(looked.iter().find_map(sites), Some(vec![1, 2]));
    let (_, watched) = heard(2, look, Some(AddressId(SHARED)));
    let passed = watched
        .iter()
        .filter(|what| matches!(what, What::Passed { .. }));
    // Both of the other thread come between two waits at most of the time.
    assert!(
        passed.filter_map(sites).any(|sites| sites == [0]),
        "{watched:?}"
    );
    let (_, nobody) = heard(2, look, Some(AddressId(SHARED + 64)));
    assert!(
        nobody
            .iter()
            .any(|what| matches!(what, What::Nobody { .. }))
    );
    assert!(nobody.iter().all(|what| sites(what).is_none()));
}

/// Check what the oracle is told: how likely and how soon a race is met.
#[test]
fn summary_of_races() {
    let recorded = made();
    let index = Index::of(&recorded);
    let program = summary::program(&index, 0.0);
    assert_eq!(program.races(), 1);
    let [meeting] = program.meetings.as_slice() else {
        panic!("{:?}", program.meetings);
    };
    assert_eq!((meeting.site, meeting.other), (2, 3));
    let After::Rate(rate) = meeting.after else {
        panic!("{meeting:?}");
    };
    assert!(
        (rate - 500.0).abs() < 1.0 && meeting.chance > 0.9,
        "{meeting:?}"
    );
    // Who watches too late meets nobody.
    assert!(summary::program(&index, 3e-3).meetings.is_empty());
}

/// Some milliseconds of the pool of threads of the benchmarks (`bench/queue.c`, four threads): `cargo xtask trace --program queue --megabytes 32 --keep FILE`.
const QUEUE: &[u8] = include_bytes!("queue.trace");

/// Check that the planner finds the race of a real program in what was recorded of it, does the same each time, and spends no more than there is.
#[test]
fn a_recorded_program_is_hunted_in() {
    let recorded = Recorded::kept(QUEUE).expect("it was kept");
    let index = Index::of(&recorded);
    assert_eq!(index.pairs_of_lines, 1);
    let hunt = Hunt {
        length_s: 600.0,
        ..MINUTE
    };
    let runs = [(); 2].map(|()| replay(&index, &mut ByWorth::new(1), &hunt, u64::MAX));
    let [one, again] = runs;
    assert_eq!(
        (one.finds.clone(), one.waits, one.looks),
        (again.finds, again.waits, again.looks)
    );
    assert_eq!(one.finds.len(), 1);
    let earned = hunt.share * recorded.processors * one.time_s + MOST_ADVANCE_S;
    assert!(one.spent_s < earned + 20e-3, "{} of {earned}", one.spent_s);
    // Kept again it is the same.
    let mut kept = Vec::new();
    recorded.keep(&mut kept).unwrap();
    let read = Recorded::kept(kept.as_slice()).unwrap();
    assert_eq!((read.events, read.races), (recorded.events, recorded.races));
    assert!(Recorded::kept(&QUEUE[..QUEUE.len() / 2]).is_err());
}

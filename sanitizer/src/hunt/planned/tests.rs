//! Whether the engine's terms are the planner's.

use std::{cell::RefCell, rc::Rc};

use super::*;
use crate::hunt::{
    plan::{
        action::ActionId,
        event::{LetGo, Partner, StallEnd},
        purse::Purse,
    },
    strategy::{Conflict, Outcome, Step},
    world::{
        comparison::{Conditions, SHARE, Who, compare},
        costs::NESTED,
        families,
        image::CodeImage,
    },
};

const SITE: SiteId = SiteId(0x40_0000);
const WAIT: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(7);

/// What the planner is told of that, where it had asked to wait at the site.
fn told(write: impl FnOnce(&mut Diary)) -> Vec<What> {
    let mut diary = Diary::default();
    write(&mut diary);
    let asked = Asked {
        wait: Some((SITE, WAIT)),
        look: LOOK,
    };
    let told = diary.tell(
        asked,
        &mut Code::new(1, Timekeeper::Steps),
        &CodeImage::default(),
    );
    let again = diary.tell(
        asked,
        &mut Code::new(1, Timekeeper::Steps),
        &CodeImage::default(),
    );
    assert!(again.is_empty());
    told
}

/// Check that a stall and the look after it are told with their times, whoever came, and in their order.
#[test]
fn stalls_are_told() {
    let lasted = Duration::from_micros(700);
    let conflict = |behind, us| Conflict {
        behind,
        distance: Duration::from_micros(us),
    };
    let quiet = told(|diary| {
        diary.came(SITE, WAIT / 4);
        diary.stalled(lasted);
        diary.outcome(SITE, Outcome::Quiet);
        diary.outcome(SITE, Outcome::Shared(conflict(7, 3)));
        diary.uses(conflict(8, 9));
    });
    let user = |site, us| Partner {
        site: SiteId(site),
        after: Duration::from_micros(us),
    };
    let expected = [
        What::Came {
            site: SITE,
            waited: WAIT / 4,
        },
        What::Held {
            site: SITE,
            lasted,
            end: StallEnd::Quiet,
        },
        What::Looked {
            site: SITE,
            lasted: LOOK,
            users: vec![user(7, 3), user(8, 9)],
            is_private: false,
        },
    ];
    assert_eq!(quiet, expected);
    let hit = told(|diary| {
        diary.stalled(lasted);
        diary.outcome(SITE, Outcome::Hit(conflict(7, 3)));
    });
    let end = StallEnd::Hit(vec![user(7, 3)]);
    assert_eq!(
        hit,
        [What::Held {
            site: SITE,
            lasted,
            end
        }]
    );
}

/// Check that what a thread is about to access is told before what came of it, at the site where it stands then.
#[test]
fn what_is_at_hand_is_told() {
    const BESIDE: SiteId = SiteId(0x40_0008);
    let address = AddressId(0x7000);
    let told = told(|diary| {
        diary.came(SITE, WAIT);
        diary.outcome(SITE, Outcome::Beside);
        diary.about(BESIDE, address);
        diary.outcome(BESIDE, Outcome::Quiet);
    });
    let why = LetGo::Wanted;
    let expected = [
        What::Came {
            site: SITE,
            waited: WAIT,
        },
        What::LetGo { site: SITE, why },
        What::About {
            site: BESIDE,
            address,
        },
        What::Held {
            site: BESIDE,
            lasted: Duration::ZERO,
            end: StallEnd::Quiet,
        },
    ];
    assert_eq!(told, expected);
}

/// Check that a wait in vain is told as such, and one that ended since all were let pass as arrivals.
#[test]
fn waits_are_told() {
    let nobody = told(|diary| diary.outcome(SITE, Outcome::NotReached));
    let waited = WAIT;
    assert_eq!(nobody, [What::Nobody { site: SITE, waited }]);
    let came = What::Came { site: SITE, waited };
    for (outcome, why) in [
        (Outcome::TooOften, LetGo::Unsuitable),
        (Outcome::Unsuitable, LetGo::Unsuitable),
        (Outcome::Held, LetGo::HoldsLock),
    ] {
        let passed = told(|diary| diary.outcome(SITE, outcome));
        assert_eq!(passed, [came.clone(), What::LetGo { site: SITE, why }]);
    }
}

/// Check that what was seen of an address in advance is told before what came of the wait, and that one which ended early has its own time.
#[test]
fn what_was_watched_is_told() {
    let (address, lasted) = (AddressId(0x7000), WAIT / 2);
    let told = told(|diary| {
        let user = Conflict {
            behind: 7,
            distance: LOOK,
        };
        diary.watched_ahead(SITE, address, lasted, &[user]);
        diary.waited(WAIT / 3);
        diary.outcome(SITE, Outcome::NotReached);
        diary.outcome(SITE, Outcome::NotReached);
    });
    let users = vec![Partner {
        site: SiteId(7),
        after: LOOK,
    }];
    let expected = [
        What::Passed {
            site: SITE,
            address,
            lasted,
            users,
        },
        What::Nobody {
            site: SITE,
            waited: WAIT / 3,
        },
        What::Nobody {
            site: SITE,
            waited: WAIT,
        },
    ];
    assert_eq!(told, expected);
}

/// A planner that waits for one address again and again, and keeps what it hears.
#[derive(Debug, Default)]
struct Waiter(Rc<RefCell<Vec<Event>>>, u64);

impl Planner for Waiter {
    fn observe(&mut self, _now: Duration, event: &Event) {
        self.0.borrow_mut().push(event.clone());
    }

    fn decide(&mut self, _now: Duration, _purse: &Purse) -> Action {
        self.1 += 1;
        Action {
            id: ActionId(self.1),
            deed: Deed::Wait {
                site: SITE,
                at_most: WAIT,
                then: Then::Look(LOOK),
                wanted: Some(AddressId(0x7000)),
            },
        }
    }

    fn stopped(
        &mut self,
        _now: Duration,
        _sites: &[SiteId],
        _waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        None
    }
}

/// Check that a wait for one address is asked for as such, and that what comes of a wait for any thread in its place is not told as of it; what it has cost is. That
/// addresses can be watched in advance is told once.
#[test]
fn waits_for_any_thread_are_told_as_such() {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let mut planned = Planned::new(Box::new(Waiter(Rc::clone(&heard), 0)), 1);
    let image = CodeImage::default();
    let means = Means {
        purse: Purse {
            left_s: 1e-3,
            income: 0.01,
            most_s: 0.02,
            credit_s: 5e-3,
        },
        spent_s: 0.0,
    };
    let step = |planned: &mut Planned| {
        planned.can_watch_ahead();
        let step = planned.step(Duration::ZERO, &means, &image);
        let Step::Wait(wait) = step else {
            panic!("{step:?}");
        };
        assert_eq!(wait.wanted, Some(0x7000));
        assert!(wait.skip == 0 && !wait.meets);
        heard.take()
    };
    let told = step(&mut planned);
    let ahead = told.iter().filter(|event| event.what == What::WatchesAhead);
    assert_eq!(ahead.count(), 1);
    for is_for_any in [false, true] {
        if is_for_any {
            planned.waits_for_any();
        }
        planned.outcome(SITE.0, Outcome::NotReached);
        let told = step(&mut planned);
        let of = |is_it: fn(&What) -> bool| {
            let event = told.iter().find(|event| is_it(&event.what));
            event.map(|event| event.of.is_some())
        };
        assert_eq!(
            of(|what| matches!(what, What::Nobody { .. })),
            Some(!is_for_any)
        );
        assert_eq!(of(|what| matches!(what, What::Cost(_))), Some(true));
        assert_eq!(of(|what| *what == What::WatchesAhead), None);
    }
}

/// Check that the planner finds by way of the engine's terms what it finds without them.
#[test]
fn nothing_is_lost_on_the_way() {
    const KEPT: f64 = 0.85;
    let conditions = Conditions {
        costs: NESTED,
        share: SHARE,
        hunts: 4,
        length_s: 700.0,
    };
    let figures = compare(&families::ALL, &[Who::Plain, Who::Wired], &conditions);
    // Not their geometric mean: that is one of luck in families in which hardly anything is found.
    let sum = |who: usize| figures.iter().map(|of| of[who].score).sum::<f64>();
    let (plain, wired) = (sum(0), sum(1));
    assert!(wired > KEPT * plain, "{wired} of {plain}");
}

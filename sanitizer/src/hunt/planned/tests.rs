//! Whether the engine's terms are the planner's.

use super::*;
use crate::hunt::{
    plan::event::{LetGo, Partner, StallEnd},
    world::{
        comparison::{Conditions, SHARE, Who, compare, geometric_mean},
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
    let mean = |who: usize| geometric_mean(figures.iter().map(|of| of[who].score));
    let (plain, wired) = (mean(0), mean(1));
    assert!(wired > KEPT * plain, "{wired} of {plain}");
}

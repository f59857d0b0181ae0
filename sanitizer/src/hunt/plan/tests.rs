//! What holds of the model whatever is seen, and that its planner is what it says.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    belief::{Belief, Circumstances},
    choose::ByWorth,
    counts::Counts,
    event::{Event, FunctionId, Partner, SiteFacts, SiteId, StallEnd, VariableId, What},
    log::{Logged, Record},
    posterior::{Beta, Gamma},
    prior,
    update::Knowledge,
};
use crate::hunt::world::{
    costs::NESTED,
    families,
    simulation::{Hunt, simulate},
};

const SITES: u64 = 6;

fn facts(site: u64) -> SiteFacts {
    SiteFacts {
        site: SiteId(site),
        function: FunctionId(site / 2),
        writes: site.is_multiple_of(2),
        variable: (site < 4).then_some(VariableId(site / 4)),
        member: None,
        can_be_probed: true,
    }
}

/// Any event that is evidence of a site.
fn evidence() -> impl Strategy<Value = What> {
    let site = (0..SITES).prop_map(SiteId);
    let time = (1u64..100_000).prop_map(Duration::from_micros);
    let partners = prop::collection::vec((0..SITES, 1u64..5000), 1..3).prop_map(|partners| {
        let partner = |(site, after)| Partner {
            site: SiteId(site),
            after: Duration::from_micros(after),
        };
        partners.into_iter().map(partner).collect::<Vec<_>>()
    });
    (site, time, partners, 0..8).prop_map(|(site, time, partners, kind)| match kind {
        0 => What::Nobody { site, waited: time },
        1 => What::Came { site, waited: time },
        2 | 3 => What::Looked {
            site,
            lasted: time,
            users: if kind == 2 { partners } else { Vec::new() },
            is_private: true,
        },
        _ => What::Held {
            site,
            lasted: time,
            end: match kind {
                4 => StallEnd::Quiet,
                5 => StallEnd::Locked,
                6 => StallEnd::Known(partners),
                _ => StallEnd::Hit(partners),
            },
        },
    })
}

/// What is known after some events.
fn after(events: &[What]) -> Knowledge {
    let mut known = Knowledge::default();
    let facts: Vec<_> = (0..SITES).map(facts).collect();
    let code = What::Code(facts.into());
    for what in std::iter::once(&code).chain(events) {
        let event = Event {
            of: None,
            what: what.clone(),
        };
        known.update(Duration::ZERO, &event);
    }
    known
}

fn beliefs(known: &Knowledge) -> Vec<Belief> {
    (0..SITES as u32)
        .map(|site| known.belief(site, 0.0))
        .collect()
}

/// How likely nothing orders what happens at a site, by all that is known.
fn races(belief: &Belief) -> f64 {
    belief.races(belief.rho.mean(), belief.sigma.mean(), belief.mu.mean())
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * (1.0 + one.abs())
}

fn are_close(one: Beta, other: Beta) -> bool {
    is_close(one.yes, other.yes) && is_close(one.no, other.no)
}

fn are_rates_close(one: Gamma, other: Gamma) -> bool {
    is_close(one.events, other.events) && is_close(one.time_s, other.time_s)
}

proptest! {
    /// Check that the order of evidence does not matter to what is thought of use, order, meetings and news. (How often somebody comes to
    /// sites of a class is told by first tries, so that one does depend on which was the first.)
    #[test]
    fn order_does_not_matter(
        (events, shuffled) in prop::collection::vec(evidence(), 0..40)
            .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle()))
    ) {
        let (one, other) = (beliefs(&after(&events)), beliefs(&after(&shuffled)));
        for (one, other) in one.iter().zip(&other) {
            prop_assert!(are_close(one.sigma, other.sigma));
            prop_assert!(are_close(one.rho, other.rho));
            prop_assert!(are_rates_close(one.mu, other.mu));
            prop_assert!(is_close(one.nu.mean(), other.nu.mean()));
            prop_assert!(is_close(races(one), races(other)));
        }
    }

    /// Check that more evidence never widens what is thought: no distribution counts fewer observations than before, and each that speaks for
    /// something makes it no less likely.
    #[test]
    fn evidence_never_widens(
        came in 0.0..50.0, waited_s in 0.0..50.0, used in 0.0..20.0, unused in 0.0..20.0,
        met in 0.0..20.0, meeting_s in 0.0..5.0, locked in 0.0..20.0, caught in 0.0..20.0,
        comes in 0.01..0.99, writes: bool, names: bool, which in 0..6,
    ) {
        let around = Circumstances { comes, writes, names, ..Circumstances::default() };
        let counts = Counts {
            came, waited_s, used, unused, met, meeting_s, locked, caught, news: caught / 2.0,
            ..Counts::default()
        };
        let mut more = counts;
        match which {
            0 => more.came += 1.0,
            1 => more.waited_s += 1.0,
            2 => more.used += 1.0,
            3 => more.unused += 1.0,
            4 => more.locked += 1.0,
            _ => {
                more.caught += 1.0;
                more.news += 1.0;
            }
        }
        let (before, after) = (Belief::of(&counts, &around), Belief::of(&more, &around));
        prop_assert!(after.sigma.yes + after.sigma.no >= before.sigma.yes + before.sigma.no - 1e-9);
        prop_assert!(after.lambda.events >= before.lambda.events);
        prop_assert!(after.lambda.time_s >= before.lambda.time_s);
        let moves = [
            after.lambda.mean() - before.lambda.mean(),
            before.lambda.mean() - after.lambda.mean(),
            after.sigma.mean() - before.sigma.mean(),
            before.sigma.mean() - after.sigma.mean(),
            races(&before) - races(&after),
            races(&after) - races(&before),
        ];
        prop_assert!(moves[which as usize] >= -1e-9);
    }

    /// Check that what was seen fades towards the prior, and that nothing is left of it in the end.
    #[test]
    fn forgetting_tends_to_the_prior(events in prop::collection::vec(evidence(), 1..30)) {
        let known = after(&events);
        let prior = beliefs(&after(&[]));
        let distance = |now: f64| {
            let at = |site: u32| known.belief(site, now);
            let sites = (0..SITES as u32).zip(&prior);
            sites
                .map(|(site, prior)| {
                    let belief = at(site);
                    (belief.mu.events - prior.mu.events).abs()
                        + (belief.lambda.time_s - prior.lambda.time_s).abs()
                })
                .sum::<f64>()
        };
        let half_life = prior::HALF_LIFE;
        let [begin, once, twice] = [0.0, half_life, 2.0 * half_life].map(distance);
        prop_assert!(is_close(once, begin / 2.0) && is_close(twice, begin / 4.0));
        prop_assert!(distance(60.0 * half_life) < 1e-9);
    }
}

/// Check that quiet stalls speak against a race by how likely somebody would have come in them: not at all where that is unlikely, so that who comes
/// seldom is waited for again; that a lock speaks against one as well, and a catch for it, whatever was quiet before. Where a site goes by a pointer they
/// say little of whether it races, and the more of whether many of its addresses do. Those that are watched only when a thread stands say nothing of
/// others that come always before.
#[test]
fn stalls_prove_what_they_can() {
    let of = |names: bool, lasted_s: f64, counts: Counts| {
        let counts = Counts {
            quiet: 4.0,
            quiet_s: 4.0 * lasted_s,
            ..counts
        };
        let around = Circumstances {
            names,
            ..Circumstances::default()
        };
        Belief::of(&counts, &around)
    };
    let likely =
        |mu: f64, lasted_s: f64, counts: Counts| of(true, lasted_s, counts).races(0.5, 0.9, mu);
    let none = Counts {
        quiet_ahead: 4.0,
        ..Counts::default()
    };
    assert!(likely(1.0, 1e-3, none) > 0.49);
    assert!(likely(1000.0, 5e-3, none) < 1e-3);
    assert!(likely(1000.0, 5e-3, none) < likely(1000.0, 1e-3, none));
    let locked = Counts {
        locked: 5.0,
        ..none
    };
    assert!(likely(1.0, 1e-3, locked) < 0.1);
    let caught = Counts {
        caught: 3.0,
        ..none
    };
    assert!(likely(1000.0, 5e-3, caught) > 0.5);
    let part = |names, lasted_s, counts| {
        let belief = of(names, lasted_s, counts);
        belief.stalls.parts(0.9, 1000.0)[0].mean()
    };
    assert!(of(false, 5e-3, none).races(0.5, 0.9, 1000.0) > 0.1);
    assert!(part(false, 5e-3, none) < 0.15 && part(false, 1e-6, none) > 0.45);
    assert!(part(false, 5e-3, caught) > 0.4 && part(true, 5e-3, none) == 1.0);
    let late = Counts::default();
    assert!((0.1..0.3).contains(&likely(1000.0, 5e-3, late)));
    let in_time = |counts| {
        of(true, 5e-3, counts)
            .stalls
            .after_and_in_time(0.5, 0.9, 1000.0)
            .1
    };
    assert!(in_time(late) < 0.01 && in_time(none) > 0.7);
    let caught = Counts {
        caught: 3.0,
        in_time: 3.0,
        ..late
    };
    assert!(in_time(caught) > 0.9);
}

/// Check that races of relatives, and orders that they show, count at a site where nobody was held; that of a program in which nothing that writes races
/// it is learned for all that write, and not for what reads.
#[test]
fn others_tell_of_a_site() {
    let held = |site: u64, end: StallEnd| What::Held {
        site: SiteId(site),
        lasted: Duration::from_millis(5),
        end,
    };
    let partner = Partner {
        site: SiteId(5),
        after: Duration::from_millis(1),
    };
    let at_first = after(&[]);
    let chance = |known: &Knowledge, site: u32| races(&known.belief(site, 0.0));
    // Sites 0 and 1 are of one function, and all up to 3 are of one variable.
    let raced = after(&[held(0, StallEnd::Hit(vec![partner]))]);
    assert!(chance(&raced, 1) > chance(&at_first, 1));
    let locks = [(); 10].map(|()| held(4, StallEnd::Locked));
    let ordered = after(&locks);
    assert!(chance(&ordered, 0) < chance(&at_first, 0));
    assert!(is_close(chance(&ordered, 1), chance(&at_first, 1)));
}

/// Check that the more catches in turn were known, the less a next one is thought to be news, and that whoever has brought more is thought to have more.
#[test]
fn news_get_rarer() {
    let news = |news: f64, caught: f64| {
        let counts = Counts {
            caught,
            news,
            ..Counts::default()
        };
        Belief::of(&counts, &Circumstances::default()).nu.mean()
    };
    assert!(news(0.0, 0.0) > 0.99 && news(1.0, 1.0) < 0.5);
    assert!(news(1.0, 11.0) < news(1.0, 2.0) / 5.0);
    assert!(news(6.0, 16.0) > 2.0 * news(1.0, 11.0));
}

/// Check that whether somebody comes within a first wait is what the class says, before anything is known of a site.
#[test]
fn rates_follow_from_classes() {
    for comes in [0.05, 0.5, 0.9] {
        let around = Circumstances {
            comes,
            ..Circumstances::default()
        };
        let lambda = Belief::of(&Counts::default(), &around).lambda;
        let mut random = fastrand::Rng::with_seed(1);
        const DRAWS: usize = 100_000;
        let come = (0..DRAWS).map(|_| {
            let rate = lambda.draw(&mut random);
            1.0 - (-rate * prior::FIRST_WAIT).exp()
        });
        let mean = come.sum::<f64>() / DRAWS as f64;
        assert!((mean - comes).abs() < 0.01, "{comes}: {mean}");
    }
}

/// Check that the same seed and the same events give the same actions, each under a name of its own.
#[test]
fn decisions_are_reproducible() {
    let log = |seed| {
        let mut decided = Vec::new();
        let mut logged = Logged::new(ByWorth::new(seed), seed, |record| {
            if let Record::Decided(_, _, action) = record {
                decided.push(action);
            }
        });
        let program = families::ALL[16](1);
        let hunt = Hunt {
            costs: NESTED,
            share: 0.01,
            length_s: 20.0,
            seed: 1,
            has_probes: false,
        };
        let run = simulate(&program, &mut logged, &hunt);
        assert!(run.stalls + run.looks > 10);
        decided
    };
    let [one, again, other] = [1, 1, 2].map(log);
    assert_eq!(one, again);
    assert_ne!(one, other);
    let mut ids: Vec<_> = one.iter().map(|action| action.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), one.len());
}

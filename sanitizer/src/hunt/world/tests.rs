//! Whether the world keeps its own rules.

use std::{collections::BTreeSet, time::Duration};

use crate::hunt::plan::{
    Planner,
    action::{Action, ActionId, Candidate, Deed, Then},
    choose::ByWorth,
    event::{Event, SiteId, StallEnd, What},
    purse::Purse,
};

use super::{
    comparison::{Conditions, Who, compare, measure},
    costs::{BARE, MOST_ADVANCE_S, NESTED, PROFILES_APART},
    families,
    oracle::Oracle,
    program::{After, Comes, Order, Program},
    report::BRIEF,
    simulation::{Hunt, Run, simulate},
    uniform::ByChance,
    wired::Wired,
};

const MINUTE: Hunt = Hunt {
    costs: NESTED,
    share: 0.01,
    length_s: 60.0,
    seed: 1,
    has_probes: false,
};

const HOLD: Then = Then::Hold {
    at_most: Duration::from_millis(5),
    look: Duration::ZERO,
};

/// Does one thing again and again, and keeps what it hears.
struct Again {
    deed: Deed,
    heard: Vec<What>,
}

impl Planner for Again {
    fn observe(&mut self, _now: Duration, event: &Event) {
        self.heard.push(event.what.clone());
    }

    fn decide(&mut self, _now: Duration, purse: &Purse) -> Action {
        let deed = if purse.left_s > 0.0 {
            self.deed.clone()
        } else {
            Deed::Rest {
                time: Duration::from_secs_f64(purse.until_left_s()),
            }
        };
        Action {
            id: ActionId(1),
            deed,
        }
    }
}

/// The same, and takes the first of those that are off their processors.
struct TakesAny(Again);

impl Planner for TakesAny {
    fn observe(&mut self, now: Duration, event: &Event) {
        self.0.observe(now, event);
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.0.decide(now, purse)
    }

    fn preempted(&mut self, _now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        all.first().map(|first| (0, first.left))
    }
}

/// What is heard of one thing in a program, in a minute.
fn heard(program: &Program, deed: Deed) -> (Run, Vec<What>) {
    heard_in(program, deed, &MINUTE)
}

fn heard_in(program: &Program, deed: Deed, hunt: &Hunt) -> (Run, Vec<What>) {
    let mut again = Again {
        deed,
        heard: Vec::new(),
    };
    let run = simulate(program, &mut again, hunt);
    (run, again.heard)
}

fn wait_at(site: usize, then: Then) -> Deed {
    Deed::Wait {
        site: SiteId(site as u64),
        at_most: Duration::from_millis(100),
        then,
        wanted: None,
    }
}

/// Two sites that meet, 100 times a second each, in this order.
fn pair(order: Order) -> Program {
    let mut program = Program::new("pair", "");
    let sites = [false, true].map(|writes| program.pointing(None, writes, Comes::Rate(100.0)));
    program.meet(sites, 1.0, [After::Rate(100.0); 2], order);
    program
}

/// A race that nobody finds, so that the hunt goes on.
fn never_found(program: &mut Program) {
    let sites = [(); 2].map(|()| program.pointing(None, true, Comes::Never));
    program.meet(sites, 1.0, [After::Rate(1.0); 2], Order::None);
}

/// Check that each family has its races among many sites, with ids that are their numbers, and meetings of sites that there are.
#[test]
fn families_are_sound() {
    for family in families::ALL {
        let program = family(1);
        let count = program.sites.len();
        let is_small = program.elsewhere > 0.0;
        assert!(
            program.races() > 0 && (count > 1000 || is_small && count > 8),
            "{}",
            program.name
        );
        for (number, site) in (0..).zip(&program.sites) {
            assert_eq!(site.facts.site, SiteId(number));
        }
        for meeting in &program.meetings {
            assert!(meeting.site < count && meeting.other < count);
            assert!((0.0..=1.0).contains(&meeting.chance));
            let facts = [meeting.site, meeting.other].map(|site| program.sites[site].facts);
            assert!(facts.iter().any(|facts| facts.writes), "{}", program.name);
        }
    }
}

/// Check that the same seed gives the same hunt, and another one another.
#[test]
fn hunts_follow_from_the_seed() {
    let finds = |seed| {
        let program = families::ALL[10](1);
        let hunt = Hunt { seed, ..MINUTE };
        simulate(&program, &mut ByChance::executed(seed), &hunt)
    };
    let [one, again, other] = [1, 1, 2].map(finds);
    assert_eq!((one.finds, one.stalls), (again.finds, again.stalls));
    assert!(one.spent_s == again.spent_s && one.spent_s != other.spent_s);
}

/// Check that no planner spends more than there is, but for what the last thread costs that came, and that all of it is spent by one who
/// can.
#[test]
fn budgets_are_kept() {
    for costs in [NESTED, BARE] {
        for share in [0.01, 0.02] {
            let hunt = Hunt {
                costs,
                share,
                ..MINUTE
            };
            let mut program = pair(Order::Other);
            never_found(&mut program);
            let run = simulate(&program, &mut ByChance::uniform(1), &hunt);
            let earned = share * 2.0 * run.time_s + MOST_ADVANCE_S;
            assert!(run.spent_s < earned + 20e-3, "{} of {earned}", run.spent_s);
            assert!(run.spent_s > 0.9 * share * 2.0 * run.time_s);
        }
    }
}

/// The planner, and how many probes it has heard of that stood, and that were removed.
struct Hears {
    planner: ByWorth,
    stood: usize,
    removed: usize,
}

impl Planner for Hears {
    fn observe(&mut self, now: Duration, event: &Event) {
        if let What::Stood(all) = &event.what {
            self.stood += all.iter().filter(|one| one.stands).count();
            self.removed += all.iter().filter(|one| !one.stands).count();
        }
        self.planner.observe(now, event);
    }

    fn decide(&mut self, now: Duration, purse: &Purse) -> Action {
        self.planner.decide(now, purse)
    }

    fn stopped(
        &mut self,
        now: Duration,
        ahead: &[SiteId],
        waited: Option<Duration>,
    ) -> Option<(SiteId, Then)> {
        self.planner.stopped(now, ahead, waited)
    }

    fn preempted(&mut self, now: Duration, all: &[Candidate]) -> Option<(usize, Duration)> {
        self.planner.preempted(now, all)
    }
}

/// Check the same where all sites are hot, and probes are tried out at each of them and sites profiled: what that costs is paid for like all else.
#[test]
fn budgets_are_kept_with_probes() {
    /// More than can have a probe at a time.
    const SITES: usize = 2000;
    for (costs, share, rate) in [
        (NESTED, 0.01, 1e3),
        (NESTED, 0.02, 4e4),
        (NESTED, 0.01, 1e5),
        (BARE, 0.02, 1e3),
        (BARE, 0.01, 1e5),
    ] {
        let hunt = Hunt {
            costs,
            share,
            has_probes: true,
            ..MINUTE
        };
        let mut program = Program::new("hot", "");
        for _ in 0..SITES {
            program.function();
            program.pointing(None, true, Comes::Rate(rate));
        }
        never_found(&mut program);
        let mut planner = Hears {
            planner: ByWorth::new(1),
            stood: 0,
            removed: 0,
        };
        let run = simulate(&program, &mut planner, &hunt);
        let Hears { stood, removed, .. } = planner;
        let earned = share * program.processors * run.time_s + MOST_ADVANCE_S;
        println!(
            "{} at {share}, {rate} a second: {} of {earned}, {stood} probes stood, {removed} were removed, {} profiles",
            costs.name, run.spent_s, run.profiles
        );
        assert!(run.spent_s < earned + 20e-3, "{} of {earned}", run.spent_s);
        assert!(stood > 0 && removed > 0 && run.profiles > 0);
    }
}

/// Check what comes of holding a thread: a race is caught where nothing orders the two, once as news and then as known; a lock shows as such once,
/// and nothing where the other one comes later.
#[test]
fn what_stalls_show() {
    let hold = wait_at(0, HOLD);
    let ends = |order| {
        let mut program = pair(order);
        never_found(&mut program);
        let (run, heard) = heard(&program, hold.clone());
        let mut counts = [0; 4];
        for what in heard {
            if let What::Held { end, lasted, .. } = what {
                assert!(lasted <= Duration::from_millis(5));
                let index = match end {
                    StallEnd::Quiet => 0,
                    StallEnd::Hit(_) => 1,
                    StallEnd::Known(_) => 2,
                    StallEnd::Locked => 3,
                };
                counts[index] += 1;
            }
        }
        assert_eq!(run.finds.len(), counts[1]);
        counts
    };
    let [quiet, new, known, locked] = ends(Order::None);
    assert!(quiet > 20 && new == 1 && known > 20 && locked == 0);
    // Whoever holds a lock for which others have waited is let pass from then on.
    let [_, new, known, locked] = ends(Order::Lock);
    assert!(new == 0 && known == 0 && locked == 1);
    assert_eq!(ends(Order::Other)[1..], [0, 0, 0]);
}

/// Check that a look shows who uses the bytes, whatever orders them, that what is private shows as such, and that nobody comes to what is
/// never executed.
#[test]
fn what_looks_show() {
    let look = |program: &Program, site| {
        let (run, heard) = heard(
            program,
            wait_at(site, Then::Look(Duration::from_millis(20))),
        );
        assert!(run.stalls == 0 && run.finds.is_empty());
        heard
    };
    let mut program = pair(Order::Other);
    let private = program.pointing(None, true, Comes::Rate(1e4));
    let dead = program.pointing(None, true, Comes::Never);
    let often = [1e4, 100.0].map(|rate| program.pointing(None, true, Comes::Rate(rate)));
    program.meet(often, 1.0, [After::Rate(100.0); 2], Order::Other);
    never_found(&mut program);
    let part_used = |site| {
        let used = look(&program, site)
            .into_iter()
            .filter_map(|what| match what {
                What::Looked { users, .. } => Some(!users.is_empty()),
                _ => None,
            });
        let used: Vec<bool> = used.collect();
        used.iter().filter(|used| **used).count() as f64 / used.len() as f64
    };
    // In 20 ms 86 % of them see somebody who comes a hundred times a second.
    let part = part_used(0);
    assert!((0.75..0.95).contains(&part), "{part}");
    // In 4 ms 33 %, after which who uses the bytes all the time is thought to be alone.
    let part = part_used(often[0]);
    assert!((0.25..0.42).contains(&part), "{part}");
    let is_private = |what: &What| match what {
        What::Looked { is_private, .. } => *is_private,
        _ => true,
    };
    assert!(look(&program, private).iter().all(is_private));
    let heard = look(&program, dead);
    assert!(heard.iter().any(|what| matches!(what, What::Nobody { .. })));
    assert!(!heard.iter().any(|what| matches!(what, What::Looked { .. })));
}

/// Check that of those who come to a site only one is stopped who is about to access what is wanted, that who uses it meanwhile is seen, and that
/// nobody is missed who uses it right after. Of any, those are seen who use the same again.
#[test]
fn who_is_wanted_is_waited_for() {
    let mut program = Program::new("pair", "");
    let sites = [false, true].map(|writes| program.pointing(None, writes, Comes::Rate(1000.0)));
    let area = program.area(4);
    program.access(&sites, area.shared(0.5));
    let soon = After::Within(NESTED.delay_s / 2.0);
    program.meet(sites, 0.5, [soon; 2], Order::Other);
    never_found(&mut program);
    let shown = |wanted| {
        let look = Then::Look(Duration::from_millis(5));
        let Deed::Wait {
            site,
            at_most,
            then,
            ..
        } = wait_at(0, look)
        else {
            unreachable!()
        };
        let (_, heard) = heard(
            &program,
            Deed::Wait {
                site,
                at_most,
                then,
                wanted,
            },
        );
        let (mut all, mut seen, mut passed) = (0, 0, 0);
        for what in heard {
            match what {
                What::About { address, .. } => {
                    all += 1;
                    assert!(wanted.is_none_or(|wanted| wanted == address));
                }
                What::Looked { users, .. } => seen += usize::from(!users.is_empty()),
                What::Passed { users, .. } => passed += users.len(),
                _ => {}
            }
        }
        assert!(all > 20);
        (seen as f64 / f64::from(all), passed)
    };
    let (of_any, passed) = shown(None);
    assert!(
        of_any > 0.1 && of_any < 0.5 && passed == 0,
        "{of_any}, {passed}"
    );
    let (of_wanted, passed) = shown(Some(area.address(2)));
    assert!(of_wanted == 1.0 && passed > 20, "{of_wanted}, {passed}");
}

/// Check what a profile shows: who comes, to sites that can be probed; who uses the same bytes, where both can be; and that it is not to be had more often than there is one.
#[test]
fn what_profiles_show() {
    let mut program = Program::new("pairs", "");
    for _ in 0..8 {
        let sites = [false, true].map(|writes| program.pointing(None, writes, Comes::Rate(2000.0)));
        program.meet(sites, 1.0, [After::Rate(5000.0); 2], Order::Other);
    }
    let dead = program.pointing(None, true, Comes::Never);
    never_found(&mut program);
    let sites: Vec<_> = (0..=dead).map(|site| SiteId(site as u64)).collect();
    let profile = Deed::Profile {
        sites: sites.into(),
        at_most: Duration::from_millis(2),
    };
    let (run, heard) = heard(&program, profile);
    assert!(run.stalls == 0 && run.finds.is_empty());
    let most = 60.0 / PROFILES_APART.as_secs_f64() + 1.0;
    assert!(run.profiles > 10 && run.profiles as f64 <= most);
    let is_probed = |site: SiteId| program.sites[site.0 as usize].facts.can_be_probed;
    let (mut came, mut pairs) = (0, BTreeSet::new());
    let mut count = 0;
    for what in &heard {
        let What::Profiled { arrivals, met, .. } = what else {
            continue;
        };
        count += 1;
        for one in arrivals {
            assert!(is_probed(one.site) && one.met <= one.count);
            assert!(one.site.0 != dead as u64 || one.count == 0);
            came += one.count;
        }
        for met in met {
            assert!(is_probed(met.first) && is_probed(met.then.site));
            pairs.insert((met.first.0, met.then.site.0));
        }
    }
    assert_eq!(count, run.profiles);
    let of = |site: usize| program.sites[site].facts.can_be_probed;
    let probed = (0..16).filter(|site| of(*site)).count() as f64;
    let each = f64::from(came) / (probed * run.profiles as f64);
    assert!((3.0..5.0).contains(&each), "{each}");
    let both = (0..16).filter(|site| of(*site) && of(site ^ 1)).count();
    assert!(both > 0 && pairs.len() == both, "{pairs:?}");
}

/// Check what comes of watching threads that are off their processors: races are caught, nobody is stopped, it costs no more than to look and to arm,
/// and what is ordered stays quiet; and that none is taken where no more threads are busy than there are processors.
#[test]
fn who_is_off_stands_for_nothing() {
    let preempted = |order, waiting| {
        let mut program = pair(order);
        program.waiting = waiting;
        program.off_s = 20e-3;
        never_found(&mut program);
        let mut taker = TakesAny(Again {
            deed: Deed::Preempted,
            heard: Vec::new(),
        });
        let run = simulate(&program, &mut taker, &MINUTE);
        (run, taker.0.heard)
    };
    let count = |heard: &[What], is: fn(&StallEnd) -> bool| {
        let ends = heard.iter().filter(|what| match what {
            What::Held { end, .. } => is(end),
            _ => false,
        });
        ends.count()
    };
    let (run, heard) = preempted(Order::None, 14.0);
    assert_eq!(run.finds.len(), 1);
    assert_eq!(count(&heard, |end| matches!(end, StallEnd::Hit(_))), 1);
    assert!(count(&heard, |end| matches!(end, StallEnd::Known(_))) > 100);
    assert!(run.stalls == 0 && run.free_stalls > 500);
    let each = run.spent_s / run.free_stalls as f64;
    assert!(each < 2.0 * (NESTED.look_s + NESTED.arm_s), "{each}");
    let (run, heard) = preempted(Order::Lock, 14.0);
    assert!(run.finds.is_empty());
    assert!(count(&heard, |end| *end == StallEnd::Quiet) > 500);
    let (run, _) = preempted(Order::None, 0.0);
    assert_eq!(run.free_stalls, 0);
}

/// Check that where many threads wait for processors the planner finds more if it sees which do, and that it takes many of them.
#[test]
fn seeing_who_is_off_helps() {
    let mut more = 0.0;
    for family in [families::ALL[21], families::ALL[22]] {
        let conditions = Conditions { hunts: 24, ..BRIEF };
        let [with, without] =
            [Who::Planner, Who::Stopping].map(|who| measure(family, who, &conditions));
        println!("{with:?}\n{without:?}");
        more += with.score - without.score;
        let run = simulate(&family(1), &mut ByWorth::new(1), &MINUTE);
        println!("{run:?}");
        assert!(run.free_stalls > 20);
    }
    assert!(more > 0.0, "{more}");
}

/// Check that whoever comes to a site at which a probe stands is stopped there, and nobody where that is not wanted or where none can stand, and hardly anybody where too many come; that it is told at which sites
/// they stand, how often somebody came there, and what was too often; that all sites have their turn; and that it takes little of the budget.
#[test]
fn arrivals_are_stopped() {
    const SELDOM: f64 = 0.05;
    let with_probes = Hunt {
        has_probes: true,
        ..MINUTE
    };
    let mut program = Program::new("cold", "");
    for _ in 0..800 {
        program.function();
        program.pointing(None, true, Comes::Rate(SELDOM));
    }
    let hot = (0..3).map(|_| program.pointing(None, true, Comes::Rate(1000.0)));
    let hot: BTreeSet<usize> = hot.collect();
    never_found(&mut program);
    let is_probed = |site: usize| program.sites[site].facts.can_be_probed;
    let spared: Vec<usize> = (0..400).filter(|site| is_probed(*site)).collect();
    let wait = Deed::Arrival {
        but: spared.iter().map(|site| SiteId(*site as u64)).collect(),
        at_most: Duration::from_millis(50),
    };
    let (run, came) = heard_in(&program, wait.clone(), &with_probes);
    let stopped = came.iter().filter_map(|what| match what {
        What::LetGo { site, .. } => Some(site.0 as usize),
        _ => None,
    });
    let stopped: Vec<usize> = stopped.collect();
    assert!(stopped.len() > 100, "{}", stopped.len());
    let is_wanted = |site: &usize| is_probed(*site) && !spared.contains(site);
    assert!(stopped.iter().all(is_wanted));
    // Until it has shown which are hot.
    let at_hot = stopped.iter().filter(|site| hot.contains(site));
    assert!(4 * at_hot.count() < stopped.len());
    let different: BTreeSet<usize> = stopped.iter().copied().collect();
    assert!(different.len() > 50);
    let told = came.iter().filter_map(|what| match what {
        What::Stood(all) => Some(all.iter().copied()),
        _ => None,
    });
    let (mut stand, mut rates) = (BTreeSet::new(), std::collections::BTreeMap::new());
    for one in told.flatten() {
        let site = one.site.0 as usize;
        assert!(is_probed(site));
        if one.stands {
            stand.insert(site);
        } else {
            stand.remove(&site);
        }
        let (count, lasted_s) = rates.entry(site).or_insert((0.0, 0.0));
        *count += f64::from(one.count);
        *lasted_s += one.lasted.as_secs_f64();
    }
    let all = (0..program.sites.len()).filter(|site| is_probed(*site) && !hot.contains(site));
    assert_eq!(stand, all.collect());
    let (mut count, mut lasted_s) = (0.0, 0.0);
    for (site, rate) in rates {
        if hot.contains(&site) {
            assert!(rate.0 / rate.1 > 300.0, "{rate:?}");
        } else {
            count += rate.0;
            lasted_s += rate.1;
        }
    }
    assert!((0.8..1.2).contains(&(count / lasted_s / SELDOM)));
    let stops = stopped.len() as f64 * NESTED.stop_s;
    assert!(run.spent_s - stops < 0.1 * 60.0 * MINUTE.share, "{run:?}");
    // Where there are none, nobody is stopped.
    let (_, came) = heard(&program, wait);
    assert!(
        !came
            .iter()
            .any(|what| matches!(what, What::LetGo { .. } | What::Stood(_)))
    );
}

/// Check that a planner which is told more finds no less, on the whole: in the families that the world has, with profiles and arrivals and without.
#[test]
fn who_is_told_more_finds_no_less() {
    /// What is left to chance in so few hunts.
    const LEAST: f64 = 0.95;
    let conditions = Conditions {
        hunts: 4,
        length_s: 300.0,
        ..BRIEF
    };
    let whos = [Who::Unprofiled, Who::Planner, Who::Standing];
    let figures = compare(&families::ALL, &whos, &conditions);
    let mut sums = [0.0; 3];
    for (family, figures) in families::ALL.iter().zip(&figures) {
        let scores = figures.iter().map(|figure| figure.score);
        for (sum, score) in sums.iter_mut().zip(scores.clone()) {
            *sum += score;
        }
        println!("{}: {:.3?}", family(1).name, scores.collect::<Vec<_>>());
    }
    let [without, profiles, both] = sums;
    assert!(
        profiles > LEAST * without && both > LEAST * without,
        "{sums:?}"
    );
}

/// Check that what begins later is not met before.
#[test]
fn phases_begin() {
    let mut program = pair(Order::None);
    program.phase(0, 30.0, f64::INFINITY);
    let (run, _) = heard(&program, wait_at(0, HOLD));
    assert!(run.finds.len() == 1 && run.finds[0].time_s > 30.0);
}

/// Check that whoever writes a variable is seen where it is watched, by its name or by a pointer.
#[test]
fn writers_are_seen() {
    let mut program = pair(Order::Other);
    never_found(&mut program);
    let variable = program.variable();
    let writer = program.naming(variable, true, Comes::Rate(10.0));
    let handler = program.pointing(None, true, Comes::Every(0.5));
    program.changing.push((variable, handler));
    let watch = Deed::Watch {
        variable,
        at_most: Duration::from_secs(1),
    };
    let (_, heard) = heard(&program, watch);
    assert!(heard.contains(&What::Changes(variable)));
    let mut seen = heard.into_iter().filter_map(|what| match what {
        What::Watched { writers, .. } => Some(writers),
        _ => None,
    });
    let first = seen.next().expect("it was watched");
    for site in [writer, handler] {
        assert!(first.iter().any(|seen| seen.site == SiteId(site as u64)));
    }
}

/// Check that knowing the truth helps: in each family the oracle finds at least as much in a quarter of an hour as a choice by chance, and
/// all that is often enough there.
#[test]
fn the_oracle_is_the_best() {
    for family in families::ALL {
        let program = family(1);
        let hunt = Hunt {
            length_s: 900.0,
            ..MINUTE
        };
        let oracle = simulate(&program, &mut Oracle::new(&program, NESTED), &hunt);
        for mut other in [ByChance::uniform(1), ByChance::executed(1)] {
            let other = simulate(&program, &mut other, &hunt);
            assert!(other.finds.len() <= oracle.finds.len(), "{}", program.name);
        }
        let (found, all) = (oracle.finds.len(), program.races());
        println!(
            "{}: {found} of {all} in {:.1} s",
            program.name, oracle.time_s
        );
    }
}

/// Check that the planner works by way of the engine's terms: it finds what is met all the time, waits, looks and holds, and does the same each
/// time.
#[test]
fn what_is_wired_is_a_planner() {
    let hunt = |family: usize| {
        let program = families::ALL[family](1);
        let runs = [(); 2].map(|()| simulate(&program, &mut Wired::new(1), &MINUTE));
        let [one, again] = runs;
        assert_eq!((one.finds.clone(), one.waits), (again.finds, again.waits));
        one
    };
    assert_eq!(hunt(0).finds.len(), 1);
    let server = hunt(16);
    assert!(server.waits > 100 && server.looks > 10 && server.stalls > 10);
}

/// Check that whoever comes at regular times does so once each time, wherever a quotient is rounded.
#[test]
fn regular_times_go_on() {
    const TIMES: u32 = 100_000;
    let mut random = fastrand::Rng::with_seed(1);
    for period in [20e-3, 50e-3, 0.1, 0.3, 1.0] {
        let mut at = 0.0;
        for _ in 0..TIMES {
            at = Comes::Every(period).next(at, &mut random);
        }
        let periods = at / period;
        assert!((periods - f64::from(TIMES)).abs() < 0.5, "{periods}");
    }
}

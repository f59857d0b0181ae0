//! Days of a machine, and the bounds that hold in them.

mod world;

use std::collections::HashMap;

use super::holds::RETRY;
use super::*;
use world::{Load, World};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A thousand processes of fifty builds: two hundred work, steadily, by turns or in bursts, the others hardly at all.
fn machine(seed: u64) -> World {
    let mut world = World::new(Settings::default(), 16, seed);
    for number in 0..1000u32 {
        let share = world.random.f64();
        let load = match number % 10 {
            0 => Load::Steady(0.01 + 0.2 * share),
            1 => Load::Turns {
                busy: 0.5 * share,
                period: secs(3600 + u64::from(number) * 7),
            },
            _ => Load::Steady(0.0005 * share),
        };
        world.start(BuildId(number % 50), load, None);
    }
    world
}

/// Fails where a lease has cost more than six percent of what its process has used in it, and more than what may be saved for one; how many have cost more than these six percent, which were wanted of all, and how many there were.
fn assert_leases_are_bounded(world: &World) -> (usize, usize) {
    const WANTED: f64 = 0.06;
    const SAVED: f64 = 0.04;
    let stall = world::STALL.as_secs_f64();
    let mut over = 0;
    for &(used, cost) in &world.costs {
        let wanted = WANTED * used;
        assert!(cost <= wanted.max(SAVED + stall), "{cost} of {used}");
        over += usize::from(cost > wanted);
    }
    println!("{over} of {} over {WANTED}", world.costs.len());
    (over, world.costs.len())
}

/// Check, on a machine with a thousand processes over thirty hours, that no process and not the machine pays more than it is to, and no lease more than is set aside for it and what it earns; that no more leases than slots
/// are there, that leases last as long as they are to, and that everybody with a purse gets one.
#[test]
fn bounds_hold_for_more_than_a_day() {
    let mut world = machine(1);
    let mut longest = Duration::ZERO;
    for hour in 1..=30 {
        world.run_until(secs(hour * 3600));
        longest = longest.max(world.scheduler.longest_wait(world.now()));
        assert!(world.most_leases <= 4, "{}", world.most_leases);
    }
    world.assert_host_is_spared();
    assert_leases_are_bounded(&world);
    for (process, worst) in world.process_excess() {
        assert!(worst <= 0.0, "{process:?} {worst}");
    }
    assert!(longest < secs(24 * 3600), "{longest:?}");
    let working = world.simulated().filter(|one| one.uses_at_least(0.01));
    let (mut all, mut leased) = (0, 0);
    for one in working {
        all += 1;
        leased += usize::from(one.leases > 0);
    }
    assert!(all >= 80 && leased == all, "{leased} of {all}");
    for &(lasted, reason) in &world.ended {
        assert!(lasted <= LONGEST + World::STEP, "{lasted:?} {reason:?}");
        let may_be_short = matches!(reason, None | Some(Reason::Spent));
        assert!(may_be_short || lasted >= SHORTEST, "{lasted:?} {reason:?}");
    }
}

/// Check that a small machine on which all are busy pays no more than it is to, but makes use of that, and that all of them are leased all the same.
#[test]
fn a_small_machine_pays_no_more() {
    let mut world = World::new(Settings::default(), 2, 6);
    for number in 0..40u32 {
        let load = Load::Steady(0.2 + 0.02 * f64::from(number));
        world.start(BuildId(number % 4), load, None);
    }
    world.run_until(secs(12 * 3600));
    let (most, host) = world.assert_host_is_spared();
    assert!(most >= 0.8 * host, "{most} {host}");
    assert_leases_are_bounded(&world);
    for one in world.simulated() {
        assert!(one.leases > 0, "{:?}", one.id);
    }
    for (process, worst) in world.process_excess() {
        assert!(worst <= 0.0, "{process:?} {worst}");
    }
}

/// Check that where all processes use little, leases are worth their beginnings, each of them has one, and none pays more than it is to: in ten minutes, for a lease costs each of them more than the share of leases.
#[test]
fn small_processes_are_worth_it() {
    const WORKING: u32 = 200;
    let mut world = World::new(Settings::default(), 2, 8);
    for number in 0..1000u32 {
        let load = if number < WORKING { 0.005 } else { 0.0 };
        world.start(BuildId(number % 50), Load::Steady(load), None);
    }
    world.run_until(secs(6 * 3600));
    let (cost, leases) = world.cost_of_leases();
    let each = cost / f64::from(leases);
    let beginning = world::BEGINNING.as_secs_f64();
    assert!(each >= 3.0 * beginning, "{each} s, {leases} times");
    for one in world.simulated().filter(|one| one.uses_at_least(0.005)) {
        assert!(one.leases > 0, "{:?}", one.id);
    }
    for (process, worst) in world.process_excess() {
        assert!(worst <= 0.0, "{process:?} {worst}");
    }
    world.assert_host_is_spared();
    let (over, all) = assert_leases_are_bounded(&world);
    assert_eq!(over, all);
}

/// Check that processes which live shortly are leased at once as soon as it is known that they do and others of their build have left something, also where all slots are taken, and
/// that all of them together pay no more than they are to.
#[test]
fn who_lives_shortly_is_leased_at_once() {
    let mut world = machine(2);
    world.run_until(secs(2 * 3600));
    let short = BuildId(77);
    let mut delays = Vec::new();
    for number in 0..400u64 {
        let begun = world.now();
        let process = world.start(short, Load::Steady(1.0), Some(secs(8)));
        world.run_until(begun + secs(12));
        if let Some(at) = world.leased_at(process) {
            delays.push((number, at - begun));
        }
    }
    let (cpu, cost) = world.of_build(short);
    assert!(cost <= 0.012 * cpu, "{cost} of {cpu}");
    assert!(delays.len() >= 20, "{}", delays.len());
    // The one whose slot is taken may have begun just now, and it takes a step to tell it.
    for &(number, delay) in &delays {
        assert!(
            number >= 3 && delay <= SHORTEST + 2 * World::STEP,
            "{number} {delay:?}"
        );
    }
}

/// Check that what holds leases back ends those that run at once, lets none begin meanwhile, and that they go on when it is over, within a minute where nobody tells.
#[test]
fn holds() {
    let after = |event: Event| {
        let mut world = machine(3);
        world.run_until(secs(3600));
        while world.leases() == 0 {
            world.run_until(world.now() + secs(1));
        }
        world.scheduler.take(world.now(), event);
        let begun = world.now();
        world.run_until(begun + World::STEP);
        assert_eq!(world.leases(), 0, "{event:?}");
        (world, begun)
    };
    let again = |world: &mut World, begun: Duration| {
        while world.leases() == 0 {
            world.run_until(world.now() + secs(1));
            assert!(world.now() < begun + secs(7200));
        }
        world.now() - begun
    };
    let (mut world, begun) = after(Event::BreakpointsTaken);
    let left = world.scheduler.makes_room(world.now());
    assert_eq!(left, Some(begun + RETRY - world.now()));
    let rest = again(&mut world, begun);
    assert_eq!(world.scheduler.makes_room(world.now()), None);
    assert!((RETRY..=secs(60)).contains(&rest), "{rest:?}");

    let (mut world, begun) = after(Event::Pressure { is_high: true });
    world.run_until(begun + secs(1800));
    assert_eq!(world.leases(), 0);
    let event = Event::Pressure { is_high: false };
    world.scheduler.take(world.now(), event);
    let begun = world.now();
    assert!(again(&mut world, begun) <= secs(60));

    let until = Some(secs(3600 + 1800));
    let (mut world, begun) = after(Event::Paused { until });
    assert!(again(&mut world, begun) >= secs(1800 - 60));
    let (mut world, begun) = after(Event::Paused { until: None });
    world.run_until(begun + secs(3600));
    assert_eq!(world.leases(), 0);
    world.scheduler.take(world.now(), Event::Resumed);
    let begun = world.now();
    assert!(again(&mut world, begun) <= secs(60));
}

/// Check that slots which are not to be had are given up at once, and got back.
#[test]
fn taken_slots() {
    let mut world = machine(4);
    world.run_until(secs(3600));
    for (slots, left) in [(1, 3), (4, 0), (9, 0), (2, 2), (0, 4)] {
        world.scheduler.take(world.now(), Event::Taken { slots });
        world.run_until(world.now() + World::STEP);
        world.most_leases = 0;
        world.run_until(world.now() + secs(600));
        assert!(world.most_leases <= left, "{slots} {}", world.most_leases);
        assert_eq!(world.most_leases == 0, left == 0, "{slots}");
    }
}

/// Check that no lease begins while gwp-race takes too much memory, that those which run go on to their ends, and that others begin when it is over.
#[test]
fn too_much_memory() {
    let mut world = machine(7);
    world.run_until(secs(3600));
    while world.leases() == 0 {
        world.run_until(world.now() + secs(1));
    }
    let (running, over) = (world.leases(), world.ended.len());
    let is_full = true;
    world.scheduler.take(world.now(), Event::Full { is_full });
    world.run_until(world.now() + secs(1800));
    let ended = &world.ended[over..];
    assert_eq!((world.leases(), ended.len()), (0, running));
    for (_, reason) in ended {
        let is_its_own = matches!(
            reason,
            None | Some(Reason::Longest | Reason::Spent | Reason::Quiet)
        );
        assert!(is_its_own, "{reason:?}");
    }
    let is_full = false;
    world.scheduler.take(world.now(), Event::Full { is_full });
    world.run_until(world.now() + secs(60));
    assert!(world.leases() > 0 || world.ended.len() > over + running);
}

/// Check that a build which is left alone is leased no more, whoever else is, and that what is to be expected of a build decides who is leased more often: as soon as its
/// leases bring what those of others do, it is leased as often.
#[test]
fn builds() {
    let mut world = machine(5);
    let (alone, poor) = (BuildId(0), BuildId(10));
    world.yields.insert(poor.0, 0.0);
    world.run_until(secs(3600));
    world
        .scheduler
        .take(world.now(), Event::LeftAlone { build: alone });
    world.run_until(world.now() + World::STEP);
    // The leases of each build from now on.
    let leases = |world: &mut World, hours: u64| -> HashMap<BuildId, u32> {
        let before: HashMap<_, _> = world.simulated().map(|one| (one.id, one.leases)).collect();
        world.run_until(world.now() + secs(hours * 3600));
        let mut leases = HashMap::new();
        for one in world.simulated() {
            *leases.entry(one.build).or_default() += one.leases - before[&one.id];
        }
        leases
    };
    // Of equal loads.
    let usual = |leases: &HashMap<BuildId, u32>| {
        [20, 30, 40]
            .map(|build| leases[&BuildId(build)])
            .iter()
            .sum::<u32>()
            / 3
    };
    let first = leases(&mut world, 5);
    assert_eq!(first[&alone], 0);
    let (few, others) = (first[&poor], usual(&first));
    assert!(few > 0 && 2 * few < others, "{few} {others}");
    // What has not been executed before is now.
    world.yields.remove(&poor.0);
    leases(&mut world, 5);
    let then = leases(&mut world, 5);
    let (many, others) = (then[&poor], usual(&then));
    assert!(4 * many > 3 * others, "{many} {others}");
}

/// Check that who is let alone for a while gets no lease meanwhile, although all others do, and is drawn again afterwards.
#[test]
fn who_rests_is_not_leased() {
    let mut world = machine(7);
    world.run_until(secs(3600));
    let until = secs(3 * 3600);
    let leases = |world: &World| -> HashMap<_, _> {
        let all = world.simulated().filter(|one| one.uses_at_least(0.1));
        all.map(|one| (one.id, one.leases)).collect()
    };
    let before = leases(&world);
    let (&resting, _) = before.iter().next().unwrap();
    let event = Event::Rests {
        process: resting,
        until,
    };
    world.scheduler.take(world.now(), event);
    // One that it has already goes on.
    world.run_until(world.now() + LONGEST);
    let begun = leases(&world);
    world.run_until(until - World::STEP);
    let meanwhile = leases(&world);
    assert_eq!(meanwhile[&resting], begun[&resting]);
    assert!(meanwhile.values().sum::<u32>() > begun.values().sum());
    while leases(&world)[&resting] == meanwhile[&resting] {
        assert!(world.now() < secs(12 * 3600));
        world.run_until(world.now() + secs(60));
    }
}

/// Check that a lease is charged for what it costs, and its rest given back.
#[test]
fn what_is_set_aside_is_given_back() {
    let settings = Settings::default();
    let mut scheduler = Scheduler::new(settings, 2, 1, secs(0));
    let [one, other] = [ProcessId(1), ProcessId(2)];
    for process in [one, other] {
        let build = BuildId(1);
        let cpu = secs(5);
        let event = Event::Began {
            process,
            build,
            cpu,
        };
        scheduler.take(secs(0), event);
    }
    for second in 1..=600 {
        let cpu = secs(5 + second);
        scheduler.take(secs(second), Event::Used { process: one, cpu });
    }
    scheduler.take(
        secs(600),
        Event::Used {
            process: other,
            cpu: secs(5),
        },
    );
    let actions = scheduler.decide(secs(600));
    let [
        Action::Begin {
            process,
            most,
            share,
        },
    ] = actions[..]
    else {
        panic!("{actions:?}");
    };
    // The other one has used nothing since it was found.
    assert_eq!((process, share), (one, settings.budget.lease));
    assert!(most > secs(1) && most <= Duration::from_millis(1200));
    let before = scheduler.host.left(secs(600));
    assert_eq!(scheduler.free(secs(600)), before - most);
    scheduler.take(
        secs(601),
        Event::Charged {
            process,
            cost: Duration::from_millis(50),
            is_new: true,
            expected: 0.0,
        },
    );
    scheduler.take(secs(601), Event::LeaseEnded { process });
    let left = scheduler.free(secs(601));
    assert_eq!(left, before - Duration::from_millis(50));
    scheduler.take(
        secs(601),
        Event::Overhead {
            cost: Duration::from_millis(10),
        },
    );
    assert_eq!(scheduler.free(secs(601)), left - Duration::from_millis(10));
}

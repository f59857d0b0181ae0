//! Races and issues that are merged and split.

use std::collections::HashMap;

use proptest::{
    collection::vec,
    prelude::any,
    test_runner::{Config, TestRunner},
};

use super::*;

also_with_postgres!(
    nothing_is_lost,
    what_is_caught_by_an_old_name,
    issues_are_merged,
    what_cannot_be_merged,
    beginnings_that_mean_one_race,
    merged_races_are_forgotten_together,
);

fn root() -> Speaker {
    Speaker {
        who: "root".to_owned(),
        reason: "why".to_owned(),
    }
}

/// Races that differ in nothing but the variable, of one issue.
fn races(number: usize) -> Vec<Race> {
    let variables = (0..number).map(|index| format!("v{index}"));
    let races = variables.enumerate().map(|(index, variable)| {
        let day = i64::try_from(index).unwrap();
        race(&variable, ["aa11", "bb22"][index % 2], day)
    });
    races.collect()
}

/// One of an issue of its own.
fn of_other_issue(variable: &str) -> Race {
    let mut race = race(variable, "aa11", 0);
    race.accesses[0].stack[0].function = Some(format!("other_{variable}"));
    race.identity = identity(&race);
    race
}

/// Check that after any sequence of merges and splits each race has the sightings of those that are merged into it, none is lost or counted twice, and that all is as before when all is split.
#[test]
fn nothing_is_lost() {
    const RACES: usize = 5;
    let mut runner = TestRunner::new(Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    });
    // A race, and another one into which it is merged; or it is split.
    let step = (0..RACES, 0..RACES, any::<bool>());
    let run = runner.run(&vec(step, 1..10), |steps| {
        let (_folder, mut store) = store();
        let races = races(RACES);
        let ids: Vec<&str> = races.iter().map(|race| &*race.identity.race).collect();
        let mut batch = caught(&races.iter().collect::<Vec<_>>());
        // Different sums for different sets of races.
        for (index, caught) in batch.caught.iter_mut().enumerate() {
            caught.times = 1 << index;
        }
        store.write(&batch).unwrap();
        for (index, id) in ids.iter().enumerate().step_by(2) {
            let verdict = [Verdict::Benign, Verdict::Fixed][index / 2 % 2];
            store.triage(&saying(id, verdict, None), start()).unwrap();
        }
        let before = store.races(start()).unwrap();
        let mut model: HashMap<usize, usize> = HashMap::new();
        let root_of = |model: &HashMap<usize, usize>, mut at: usize| {
            while let Some(target) = model.get(&at) {
                at = *target;
            }
            at
        };
        for (name, into, splits) in steps {
            if splits {
                let done = store.split(ids[name], &root(), start());
                assert_eq!(done.is_ok(), model.remove(&name).is_some());
            } else {
                let may =
                    name != into && !model.contains_key(&name) && root_of(&model, into) != name;
                let done = store.merge(ids[name], ids[into], &root(), start());
                assert_eq!(done.is_ok(), may, "{name} into {into}: {done:?}");
                if may {
                    model.insert(name, into);
                }
            }
            let mut sums: HashMap<&str, i64> = HashMap::new();
            let mut reports: HashMap<&str, usize> = HashMap::new();
            for index in 0..RACES {
                let of = ids[root_of(&model, index)];
                *sums.entry(of).or_default() += 1 << index;
                *reports.entry(of).or_default() += 1;
                let named = store.named(ids[index]).unwrap();
                assert_eq!(named, Named::Race(of.to_owned()));
            }
            let now = store.races(start()).unwrap();
            let times = now.iter().map(|race| (&*race.id, race.times));
            assert_eq!(times.collect::<HashMap<_, _>>(), sums);
            for race in &now {
                let seen: i64 = race.seen.iter().map(|seen| seen.times).sum();
                assert_eq!(seen, race.times);
                let records = store.evidence(&race.id, None).unwrap();
                assert_eq!(records.len(), reports[&*race.id]);
                assert_eq!(race.ids().count(), reports[&*race.id]);
                // What was said of a race itself counts, and nothing else.
                let itself = before.iter().find(|before| before.id == race.id).unwrap();
                assert_eq!(race.said, itself.said);
            }
        }
        for name in model.keys() {
            store.split(ids[*name], &root(), start()).unwrap();
        }
        assert_eq!(store.races(start()).unwrap(), before);
        Ok(())
    });
    run.unwrap();
}

/// Check that what is caught by the name of a race that was merged counts for the other one, also for its state and for what runs know, and that it is its own again once it is split.
#[test]
fn what_is_caught_by_an_old_name() {
    let (_folder, mut store) = store();
    let [old, mut new] = ["before", "after"].map(of_other_issue);
    new.time = rfc3339(start() + 1000);
    store.write(&caught(&[&old, &new])).unwrap();
    let [old_id, new_id] = [&old, &new].map(|race| &*race.identity.race);
    let now = start() + DAY;
    let knows = |store: &mut Store, all: bool| {
        let mut baseline = Baseline::default();
        store.add_known(&mut baseline, all, now).unwrap();
        [&old, &new].map(|race| baseline.knows(race))
    };
    // What was said of the one that is merged counts no more, be it of its issue.
    store
        .triage(&saying(&old.identity.issue, Verdict::Benign, None), now)
        .unwrap();
    assert_eq!(knows(&mut store, false), [true, false]);
    store.merge(old_id, new_id, &root(), now).unwrap();
    assert_eq!(knows(&mut store, false), [false, false]);
    assert_eq!(knows(&mut store, true), [true, true]);
    store
        .triage(&saying(new_id, Verdict::Benign, None), now)
        .unwrap();
    assert_eq!(knows(&mut store, false), [true, true]);
    store
        .triage(&saying(new_id, Verdict::Fixed, None), now)
        .unwrap();
    // In the build of before both are known still.
    assert_eq!(knows(&mut store, true), [true, true]);
    let mut again = old.clone();
    again.build_id = Some("bb22".to_owned());
    again.time = rfc3339(now + DAY);
    store.write(&caught(&[&again])).unwrap();
    let races = store.races(now).unwrap();
    let [race] = &races[..] else {
        panic!("{races:?}");
    };
    assert_eq!(
        (&*race.id, race.state, race.times),
        (new_id, State::Regressed, 3)
    );
    assert_eq!(race.merged, [old_id]);
    assert_eq!(race.issue, new.identity.issue);
    assert_eq!(race.issues, [&*old.identity.issue]);
    assert_eq!(
        store.evidence(new_id, None).unwrap(),
        [again.clone(), new.clone(), old.clone()]
    );

    assert_eq!(store.split(old_id, &root(), now).unwrap(), new_id);
    let races = store.races(now).unwrap();
    let states: HashMap<&str, _> = races
        .iter()
        .map(|race| (&*race.id, (race.state, race.times)))
        .collect();
    assert_eq!(states[old_id], (State::Benign, 2));
    assert_eq!(states[new_id], (State::Fixed, 1));
    assert_eq!(store.evidence(old_id, None).unwrap(), [again, old.clone()]);
    let log = store.log(Some(&[new_id])).unwrap();
    let done: Vec<_> = log
        .iter()
        .filter_map(|entry| match entry {
            Entry::Merge(merge) => Some((merge.done, &*merge.name, &*merge.target, &*merge.who)),
            Entry::Said(_) => None,
        })
        .collect();
    assert_eq!(
        done,
        [
            (Done::Merged, old_id, new_id, "root"),
            (Done::Split, old_id, new_id, "root")
        ]
    );
    assert_eq!(log.len(), 4);
}

/// Check that the races of an issue that was merged are those of the other one, and that what is said of that holds for them, also for those that are not there yet.
#[test]
fn issues_are_merged() {
    let (_folder, mut store) = store();
    let [first, second] = ["before", "after"].map(of_other_issue);
    store.write(&caught(&[&first, &second])).unwrap();
    let [old, new] = [&first, &second].map(|race| &*race.identity.issue);
    let now = start() + DAY;
    store.merge(old, new, &root(), now).unwrap();
    store
        .triage(&saying(new, Verdict::Benign, None), now)
        .unwrap();
    for race in store.races(now).unwrap() {
        assert_eq!((&*race.issue, race.state), (new, State::Benign));
    }
    assert_eq!(store.named(old).unwrap(), Named::Issue(new.to_owned()));
    let mut later = first.clone();
    later.location.name = Some("later".to_owned());
    later.identity = identity(&later);
    assert_eq!(later.identity.issue, old);
    let knows = |store: &mut Store| {
        let mut baseline = Baseline::default();
        store.add_known(&mut baseline, false, now).unwrap();
        [&first, &second, &later].map(|race| baseline.knows(race))
    };
    assert_eq!(knows(&mut store), [true; 3]);
    // It is of this issue that something else is said later.
    let other = saying(&first.identity.race, Verdict::Confirmed, None);
    store.triage(&other, now).unwrap();
    assert_eq!(knows(&mut store), [false, true, true]);
    store.split(old, &root(), now).unwrap();
    assert_eq!(knows(&mut store), [false, true, false]);
}

/// Check that what cannot be merged or split is told with what to do, and changes nothing.
#[test]
fn what_cannot_be_merged() {
    let (_folder, mut store) = store();
    let races = races(3);
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let [a, b, c] = [0, 1, 2].map(|index| &*races[index].identity.race);
    let issue = &*races[0].identity.issue;
    store.merge(a, b, &root(), start()).unwrap();
    let before = store.log(None).unwrap();
    let merged = |store: &mut Store, name: &str, into: &str| {
        let done = store.merge(name, into, &root(), start());
        done.unwrap_err().to_string()
    };
    for (name, into, said) in [
        (a, a, "cannot be merged into itself"),
        (a, issue, "are not of one kind"),
        (issue, a, "are not of one kind"),
        (a, c, "is merged into"),
        (a, b, "already"),
        (b, a, "split r3:"),
    ] {
        let error = merged(&mut store, name, into);
        assert!(error.contains(said), "{error}");
    }
    for (name, said) in [(b, a), (c, "races log")] {
        let error = store.split(name, &root(), start()).unwrap_err().to_string();
        assert!(
            error.contains("is not merged") && error.contains(said),
            "{error}"
        );
    }
    assert_eq!(store.log(None).unwrap(), before);

    let error = store.itself("r3:ffff").unwrap_err().to_string();
    assert!(error.contains("has no race"), "{error}");
    let pair = races[0].identity.pair.as_deref().unwrap();
    let error = store.itself(pair).unwrap_err().to_string();
    assert!(error.contains("name its race"), "{error}");
    assert_eq!(store.itself(a).unwrap(), a);
    assert_eq!(store.named(a).unwrap(), Named::Race(b.to_owned()));
}

/// Check that the beginning that several names have is understood if all of them mean one race, and that each can be split all the same.
#[test]
fn beginnings_that_mean_one_race() {
    let (_folder, mut store) = store();
    let first = race("hits", "aa11", 0);
    let mut twin = first.clone();
    twin.identity.race = format!("{}{}", &first.identity.race[..20], "0".repeat(15));
    twin.pid += 1;
    store.write(&caught(&[&first, &twin])).unwrap();
    let [a, b] = [&first, &twin].map(|race| &*race.identity.race);
    assert!(store.named(&a[..12]).is_err());
    store.merge(a, b, &root(), start()).unwrap();
    assert_eq!(store.named(&a[..12]).unwrap(), Named::Race(b.to_owned()));
    let error = store.itself(&a[..12]).unwrap_err().to_string();
    assert!(error.contains(a) && error.contains(b), "{error}");
}

/// Check that a circle, which another program has written, makes one race of all in it, whichever is asked for, and can be split.
#[test]
fn circles_of_others() {
    let (_folder, mut store) = store();
    let races = races(3);
    store
        .write(&caught(&races.iter().collect::<Vec<_>>()))
        .unwrap();
    let mut ids: Vec<&str> = races.iter().map(|race| &*race.identity.race).collect();
    ids.sort_unstable();
    store.merge(ids[0], ids[1], &root(), start()).unwrap();
    store.merge(ids[2], ids[0], &root(), start()).unwrap();
    let sql = "INSERT INTO alias VALUES (99, $1, 'merged', $2, '', '', 0)";
    store
        .with(async |connection| {
            let query = sqlx::query(sql).bind(ids[1]).bind(ids[0]);
            query.execute(connection).await
        })
        .unwrap();
    let all = store.races(start()).unwrap();
    assert_eq!((all.len(), &*all[0].id, all[0].times), (1, ids[0], 3));
    assert_eq!(all[0].merged, ids[1..]);
    store.split(ids[1], &root(), start()).unwrap();
    assert_eq!(store.races(start()).unwrap()[0].id, ids[1]);
}

/// Check that races that are merged are forgotten together, with what was said of their names, and not before the last of them is old.
#[test]
fn merged_races_are_forgotten_together() {
    let (_folder, mut store) = store();
    let old = of_other_issue("before");
    let mut new = of_other_issue("after");
    new.time = rfc3339(start() + 10 * DAY);
    let left = race("hits", "aa11", 20);
    store.write(&caught(&[&old, &new, &left])).unwrap();
    let [old_id, new_id] = [&old, &new].map(|race| &*race.identity.race);
    let now = start() + 20 * DAY;
    store
        .triage(&saying(old_id, Verdict::Benign, None), now)
        .unwrap();
    store.merge(old_id, new_id, &root(), now).unwrap();
    // Its own issue has races no more, and means the other one.
    let issues = [&old, &left].map(|race| &*race.identity.issue);
    store.merge(issues[0], issues[1], &root(), now).unwrap();
    let ids = [new_id.to_owned()];
    // One that was merged after it was chosen lives on in the other one.
    for chosen in [old_id, new_id] {
        let pruned = store.forget(&[chosen.to_owned()], start() + 5 * DAY);
        assert_eq!(pruned.unwrap().races, 0);
    }
    let times = store.races(now).unwrap().into_iter().map(|race| race.times);
    assert_eq!(times.sum::<i64>(), 3);
    assert_eq!(store.races(now).unwrap().len(), 2);
    let pruned = store.forget(&ids, start() + 15 * DAY).unwrap();
    assert_eq!(pruned.races, 1);
    let races = store.races(now).unwrap();
    assert_eq!((races.len(), &races[0].id), (1, &left.identity.race));
    assert!(store.log(Some(&[old_id, new_id])).unwrap().is_empty());
    assert!(store.named(old_id).is_err());
    let named = store.named(issues[0]).unwrap();
    assert_eq!(named, Named::Issue(issues[1].to_owned()));
}

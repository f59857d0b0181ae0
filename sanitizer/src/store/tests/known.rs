//! What is known to a run by what people have said.

use super::*;

also_with_postgres!(the_last_word_counts, builds_that_cannot_be_told);

/// Check what is to be thought of races by what was said of them and their issues, and which of them a run knows.
#[test]
fn the_last_word_counts() {
    let (_folder, mut store) = store();
    let [old, new] = ["aa11", "bb22"].map(|build| race("hits", build, 0));
    let other = race("total", "aa11", 0);
    assert_eq!(old.identity.issue, other.identity.issue);
    store.write(&caught(&[&old, &other])).unwrap();
    let now = start() + DAY;
    let state = |store: &mut Store, now: i64| {
        let races = store.races(now).unwrap();
        let race = races.iter().find(|race| race.id == old.identity.race);
        race.unwrap().state
    };
    let known = |store: &mut Store, all: bool, now: i64| {
        let mut baseline = Baseline::default();
        store.add_known(&mut baseline, all, now).unwrap();
        [&old, &new, &other].map(|race| baseline.knows(race))
    };
    assert_eq!(known(&mut store, false, now), [false; 3]);
    assert_eq!(known(&mut store, true, now), [true; 3]);

    let name = &old.identity.race;
    store
        .triage(&saying(name, Verdict::Benign, Some(now + DAY)), now)
        .unwrap();
    assert_eq!(state(&mut store, now), State::Benign);
    assert_eq!(known(&mut store, false, now), [true, true, false]);
    // What was accepted for a time counts again after that.
    assert_eq!(state(&mut store, now + DAY), State::New);
    assert_eq!(known(&mut store, true, now + DAY), [false, false, true]);

    store
        .triage(&saying(name, Verdict::Fixed, None), now)
        .unwrap();
    assert_eq!(state(&mut store, now), State::Fixed);
    assert_eq!(known(&mut store, true, now), [true, false, true]);
    // The old build has it still; one that was seen first after the fix has it again.
    store.write(&caught(&[&race("hits", "aa11", 3)])).unwrap();
    assert_eq!(state(&mut store, now), State::Fixed);
    store.write(&caught(&[&race("hits", "bb22", 3)])).unwrap();
    assert_eq!(state(&mut store, now), State::Regressed);
    assert_eq!(known(&mut store, true, now), [false, false, true]);

    let issue = &old.identity.issue;
    store
        .triage(&saying(issue, Verdict::Acknowledged, None), now)
        .unwrap();
    assert_eq!(state(&mut store, now), State::Acknowledged);
    assert_eq!(known(&mut store, false, now), [true; 3]);
    store
        .triage(&saying(name, Verdict::New, None), now)
        .unwrap();
    assert_eq!(state(&mut store, now), State::New);
    assert_eq!(store.said(&[name, issue]).unwrap().len(), 4);
    // The other race is still accepted by its issue's word, and one of that issue that is not there yet, but not this one.
    let later = race("later", "cc33", 9);
    assert_eq!(later.identity.issue, *issue);
    let knows_later = |store: &mut Store| {
        let mut baseline = Baseline::default();
        store.add_known(&mut baseline, false, now).unwrap();
        baseline.knows(&later)
    };
    assert_eq!(known(&mut store, false, now), [false, false, true]);
    assert!(knows_later(&mut store));
    store
        .triage(&saying(name, Verdict::Fixed, None), now)
        .unwrap();
    assert_eq!(state(&mut store, now), State::Regressed);
    assert_eq!(known(&mut store, true, now), [false, false, true]);
    // Where each race has a word of its own, the issue's counts for new ones all the same.
    store
        .triage(&saying(&other.identity.race, Verdict::New, None), now)
        .unwrap();
    assert_eq!(known(&mut store, false, now), [false; 3]);
    assert!(knows_later(&mut store));
    store
        .triage(&saying(issue, Verdict::New, None), now)
        .unwrap();
    assert!(!knows_later(&mut store));
}

/// Check that a program without a build id, in which a fixed race is caught again, counts as a new build.
#[test]
fn builds_that_cannot_be_told() {
    let (_folder, mut store) = store();
    let at = |day: i64| {
        let mut race = race("hits", "", day);
        race.build_id = None;
        race
    };
    store.write(&caught(&[&at(0)])).unwrap();
    let name = at(0).identity.race;
    let now = start() + DAY;
    store
        .triage(&saying(&name, Verdict::Fixed, None), now)
        .unwrap();
    let known = |store: &mut Store| {
        let mut baseline = Baseline::default();
        store.add_known(&mut baseline, true, now).unwrap();
        (store.races(now).unwrap()[0].state, baseline.knows(&at(0)))
    };
    assert_eq!(known(&mut store), (State::Fixed, false));
    store.write(&caught(&[&at(2)])).unwrap();
    assert_eq!(known(&mut store), (State::Regressed, false));
}

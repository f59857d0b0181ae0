//! Whether a log says all that there is to know, and whoever reads it takes nothing else for one.

use std::time::Duration;

use proptest::{collection::vec, option, prelude::*};

use super::{
    Differs, Logged, Record, Replay, ReplayError,
    file::{BODY, LogError, Reader, beginning, encode, frame},
    replay,
    text::Words,
};
use crate::hunt::{
    plan::{
        action::{Action, ActionId, Candidate, Deed, Then},
        choose::ByWorth,
        counts::Counts,
        event::{
            AddressId, Arrivals, Event, FunctionId, LetGo, MemberId, Met, Partner, SiteFacts,
            SiteId, StallEnd, Stood, VariableId, What,
        },
        prior,
        purse::Purse,
    },
    world::{
        costs::NESTED,
        families,
        simulation::{Hunt, Run, simulate},
    },
};

const PROCESS: u32 = 4711;

/// A hunt in a simulated program, and its log.
fn hunt(family: usize, length_s: f64, seed: u64) -> (Run, Vec<Record>) {
    let mut records = Vec::new();
    let program = families::ALL[family](1);
    let mut logged = Logged::new(ByWorth::new(seed), seed, |record| records.push(record));
    let run = simulate(&program, &mut logged, &length(length_s));
    records.push(Record::Ended);
    (run, records)
}

fn length(length_s: f64) -> Hunt {
    Hunt {
        costs: NESTED,
        share: 0.01,
        length_s,
        seed: 1,
        has_probes: false,
    }
}

/// A file with frames of such records, of one process.
fn written(records: &[Record]) -> Vec<u8> {
    let mut file = beginning().into_bytes();
    let mut body = Vec::new();
    let mut end = |body: &mut Vec<u8>| {
        file.extend(frame(PROCESS, &std::mem::take(body)).expect("it is short"));
    };
    for record in records {
        body.extend(encode(record).unwrap());
        if body.len() >= BODY {
            end(&mut body);
        }
    }
    end(&mut body);
    file
}

/// All that can be read of a file: the records, and whether it was cut.
fn read(file: &[u8]) -> Result<(Vec<Record>, bool), LogError> {
    let mut reader = Reader::new(file)?;
    let mut records = Vec::new();
    for record in &mut reader {
        let (process, record) = record?;
        assert_eq!(process, PROCESS);
        records.push(record);
    }
    Ok((records, reader.is_cut()))
}

fn replayed(file: &[u8]) -> Result<super::Figures, ReplayError> {
    replay(&mut Reader::new(file)?)
}

/// Check that a hunt is the same whether it is logged or not, that a log is read as it was written, and that a planner which hears it again answers the same: in programs
/// of all kinds, with all that can be decided.
#[test]
fn hunts_are_replayed() {
    for family in 0..families::ALL.len() {
        let (run, records) = hunt(family, 60.0, 7);
        let program = families::ALL[family](1);
        let alone = simulate(&program, &mut ByWorth::new(7), &length(60.0));
        assert_eq!((run.finds, run.spent_s), (alone.finds, alone.spent_s));
        let file = written(&records);
        let (same, is_cut) = read(&file).unwrap();
        assert!(same == records && !is_cut);
        let figures = replayed(&file).unwrap();
        let count =
            |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count() as u64;
        assert_eq!((figures.hunts, figures.of_other_priors), (1, 0));
        assert_eq!((figures.without_end, figures.lost), (0, 0));
        assert!(figures.decisions > 1);
        assert_eq!(
            figures.decisions,
            count(|record| matches!(record, Record::Decided(..)))
        );
        assert_eq!(
            figures.events,
            count(|record| matches!(record, Record::Observed(..)))
        );
        assert_eq!(
            figures.stops,
            count(|record| matches!(record, Record::Stopped { .. }))
        );
    }
}

/// Check that the code of a large program is told in pieces, none of which is long.
#[test]
fn long_lists_are_told_in_pieces() {
    let (_, records) = hunt(6, 60.0, 7);
    let mut sites = 0;
    for record in &records {
        if let Record::Observed(
            _,
            Event {
                what: What::Code(some),
                ..
            },
        ) = record
        {
            sites += some.len();
            assert!(encode(record).unwrap().len() < BODY);
        }
    }
    assert_eq!(sites, families::ALL[6](1).sites.len());
    assert!(sites > 10_000);
    // What could not be read again is not written.
    let long = vec![
        Partner {
            site: SiteId(u64::MAX),
            after: Duration::MAX
        };
        1 << 16
    ];
    let what = What::Watched {
        variable: VariableId(1),
        lasted: Duration::ZERO,
        writers: long,
    };
    assert!(encode(&Record::Observed(Duration::ZERO, Event { of: None, what })).is_err());
    assert_eq!(frame(PROCESS, &vec![0; 1 << 20]), None);
}

/// Check that of a log with one changed record it is told where the answers begin to differ: at that record if it is an answer, and behind it if it is what the planner has heard.
#[test]
fn differences_are_told() {
    let (_, records) = hunt(16, 60.0, 7);
    let difference = |records: &[Record]| match replayed(&written(records)) {
        Err(ReplayError::Difference(difference)) => *difference,
        other => panic!("{other:?}"),
    };
    let nth = |is: fn(&Record) -> bool, n: usize| {
        let mut places = (0..).zip(&records).filter(|(_, record)| is(record));
        places.nth(n).expect("there are so many").0
    };

    let at: usize = nth(|record| matches!(record, Record::Decided(..)), 20);
    let mut changed = records.clone();
    let Record::Decided(_, _, action) = &mut changed[at] else {
        unreachable!()
    };
    let before = action.clone();
    action.deed = Deed::Rest {
        time: Duration::from_millis(77),
    };
    let after = action.clone();
    let told = difference(&changed);
    assert_eq!((told.process, told.record), (PROCESS, at as u64 + 1));
    assert_eq!(
        told.differs,
        Differs::Decision {
            logged: after,
            now: before
        }
    );
    let text = told.to_string();
    assert!(
        text.contains("rest for 77 ms") && text.contains(&format!("record {}", at + 1)),
        "{text}"
    );

    let at = nth(
        |record| {
            matches!(
                record,
                Record::Stopped {
                    answer: Some(_),
                    ..
                }
            )
        },
        0,
    );
    let mut changed = records.clone();
    let Record::Stopped { answer, .. } = &mut changed[at] else {
        unreachable!()
    };
    *answer = None;
    let told = difference(&changed);
    assert_eq!(told.record, at as u64 + 1);
    assert!(matches!(
        told.differs,
        Differs::Stop {
            logged: None,
            now: Some(_),
            ..
        }
    ));
    assert!(told.to_string().contains("as decided"), "{told}");

    // An event that did not happen.
    let at = nth(
        |record| {
            matches!(
                record,
                Record::Observed(
                    _,
                    Event {
                        what: What::Held { .. } | What::Looked { .. },
                        ..
                    }
                )
            )
        },
        3,
    );
    let mut changed = records.clone();
    changed.remove(at);
    assert!(difference(&changed).record > at as u64);

    // Another seed.
    let mut changed = records.clone();
    let Record::Begun { seed, .. } = &mut changed[0] else {
        unreachable!()
    };
    *seed += 1;
    assert!(difference(&changed).record > 1);
}

/// Check that hunts of several processes are told apart in one file, those of a process that follow each other too, and that it is told which have no end.
#[test]
fn hunts_are_told_apart() {
    let logs = [hunt(0, 60.0, 1).1, hunt(1, 60.0, 2).1];
    let mut replay = Replay::default();
    for (one, other) in logs[0].iter().zip(&logs[1]) {
        replay.take(1, one.clone()).unwrap();
        replay.take(2, other.clone()).unwrap();
    }
    // Of one of them all was taken, which has ended it; the other one's process begins anew.
    for record in &logs[0] {
        replay.take(1, record.clone()).unwrap();
    }
    let figures = replay.end();
    assert_eq!((figures.hunts, figures.without_end), (3, 1));

    let mut replay = Replay::default();
    let begun = Record::Begun {
        seed: 1,
        priors: !prior::fingerprint(),
    };
    replay.take(1, begun).unwrap();
    replay.take(1, Record::Lost).unwrap();
    for record in [Record::Ended, logs[0][1].clone()] {
        let error = replay.take(1, record).unwrap_err();
        assert!(
            matches!(error, ReplayError::WithoutBeginning { process: 1, .. }),
            "{error}"
        );
    }
    let figures = replay.end();
    assert_eq!(
        (figures.of_other_priors, figures.lost, figures.without_end),
        (1, 1, 0)
    );
}

/// Check that a log which was cut anywhere is read up to its last whole frame, and that it is said to be cut.
#[test]
fn cut_logs_are_read() {
    let (_, records) = hunt(2, 60.0, 7);
    let records = &records[..200];
    let frames: Vec<Vec<u8>> = records
        .chunks(20)
        .map(|some| {
            let some = some.iter().flat_map(|record| encode(record).unwrap());
            frame(PROCESS, &some.collect::<Vec<u8>>()).unwrap()
        })
        .collect();
    let mut file = beginning().into_bytes();
    let mut ends = vec![file.len()];
    for frame in &frames {
        file.extend(frame);
        ends.push(file.len());
    }
    for cut in (ends[0]..file.len()).step_by(7).chain(ends.clone()) {
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let (read, is_cut) = read(&file[..cut]).unwrap();
        assert!(read == records[..20 * whole], "{cut}");
        assert_eq!(is_cut, !ends.contains(&cut), "{cut}");
        if whole > 0 {
            assert_eq!(replayed(&file[..cut]).unwrap().without_end, 1);
        }
    }
}

/// Check that what is no log is told from one of another version, and that damage is told with its place.
#[test]
fn garbage_is_refused() {
    for nonsense in [
        &b""[..],
        b"\n",
        b"\x7fELF\x02\x01\x01",
        b"gwp-race",
        b"gwp-race decisions 3",
        &[0xff; 100],
    ] {
        let error = read(nonsense).unwrap_err();
        assert!(matches!(error, LogError::NoLog), "{error}");
    }
    let other = read(b"gwp-race decisions 17\nwhatever")
        .unwrap_err()
        .to_string();
    assert!(
        other.contains("17") && other.contains("reads version 5"),
        "{other}"
    );

    let begun = encode(&Record::Begun { seed: 1, priors: 2 }).unwrap();
    let good = frame(PROCESS, &begun).unwrap();
    let purse = |left_s, income| Purse {
        left_s,
        income,
        most_s: 1.0,
        credit_s: 0.1,
    };
    let rest = Action {
        id: ActionId(1),
        deed: Deed::Rest {
            time: Duration::ZERO,
        },
    };
    let decided = |left_s, income| {
        let record = Record::Decided(Duration::ZERO, purse(left_s, income), rest.clone());
        frame(PROCESS, &encode(&record).unwrap()).unwrap()
    };
    let cost = |cost_s| {
        let event = Event {
            of: None,
            what: What::Cost(cost_s),
        };
        frame(
            PROCESS,
            &encode(&Record::Observed(Duration::ZERO, event)).unwrap(),
        )
        .unwrap()
    };
    for bad in [
        vec![0; 4],
        vec![0xff; 4],
        frame(PROCESS, &[0x7f]).unwrap(),
        frame(PROCESS, &begun[..1]).unwrap(),
        vec![1, 0, 0, 0, 0xff],
        decided(f64::NAN, 1.0),
        // The time until it has anything again is none that there is.
        decided(-1e300, 1e-300),
        decided(-1.0, f64::NEG_INFINITY),
        cost(f64::INFINITY),
        cost(f64::NAN),
    ] {
        let head = [beginning().as_bytes(), &good].concat();
        let error = read(&[&head[..], &bad].concat()).unwrap_err();
        assert!(
            matches!(error, LogError::Garbage { at, .. } if at == head.len() as u64),
            "{bad:?}: {error}"
        );
    }
}

fn site() -> impl Strategy<Value = SiteId> {
    any::<u64>().prop_map(SiteId)
}

fn partners() -> impl Strategy<Value = Vec<Partner>> {
    let partner = (site(), any::<Duration>()).prop_map(|(site, after)| Partner { site, after });
    vec(partner, 0..4)
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        any::<(Duration, Duration)>().prop_map(|(at_most, look)| Then::Hold { at_most, look }),
        any::<Duration>().prop_map(Then::Look),
        Just(Then::LetGo),
    ]
}

fn address() -> impl Strategy<Value = AddressId> {
    any::<u64>().prop_map(AddressId)
}

fn stood() -> impl Strategy<Value = Stood> {
    let what = (site(), any::<Duration>(), any::<u32>(), any::<bool>());
    what.prop_map(|(site, lasted, count, stands)| Stood {
        site,
        lasted,
        count,
        stands,
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    let time = any::<Duration>;
    prop_oneof![
        (site(), time(), then(), option::of(address())).prop_map(
            |(site, at_most, then, wanted)| Deed::Wait {
                site,
                at_most,
                then,
                wanted
            }
        ),
        (time(), then()).prop_map(|(at_most, then)| Deed::Sample { at_most, then }),
        (vec(site(), 0..64), time()).prop_map(|(but, at_most)| Deed::Arrival {
            but: but.into(),
            at_most
        }),
        Just(Deed::Preempted),
        (any::<u64>().prop_map(VariableId), time())
            .prop_map(|(variable, at_most)| Deed::Watch { variable, at_most }),
        (vec(site(), 0..64), time()).prop_map(|(sites, at_most)| Deed::Profile {
            sites: sites.into(),
            at_most
        }),
        time().prop_map(|time| Deed::Rest { time }),
    ]
}

fn facts() -> impl Strategy<Value = SiteFacts> {
    let ids = (site(), any::<u64>().prop_map(FunctionId));
    let object = (
        option::of(any::<u64>().prop_map(VariableId)),
        option::of(any::<u32>().prop_map(MemberId)),
    );
    let flags = any::<(bool, bool)>();
    (ids, flags, object).prop_map(|((site, function), flags, (variable, member))| {
        let (writes, can_be_probed) = flags;
        SiteFacts {
            site,
            function,
            writes,
            variable,
            member,
            can_be_probed,
        }
    })
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    (site(), any::<u32>(), any::<u32>()).prop_map(|(site, count, met)| Arrivals {
        site,
        count,
        met,
    })
}

fn met() -> impl Strategy<Value = Met> {
    (site(), address(), site(), any::<Duration>()).prop_map(|(first, address, site, after)| Met {
        first,
        address,
        then: Partner { site, after },
    })
}

fn counts() -> impl Strategy<Value = Counts> {
    let times = 0.0..1e6;
    (times.clone(), times.clone(), times).prop_map(|(came, waited_s, used)| Counts {
        came,
        waited_s,
        used,
        ..Counts::default()
    })
}

fn what() -> impl Strategy<Value = What> {
    let time = any::<Duration>;
    let variable = || any::<u64>().prop_map(VariableId);
    let end = prop_oneof![
        Just(StallEnd::Quiet),
        partners().prop_map(StallEnd::Hit),
        partners().prop_map(StallEnd::Known),
        Just(StallEnd::Locked),
    ];
    let why = prop::sample::select(
        &[
            LetGo::Wanted,
            LetGo::Unsuitable,
            LetGo::HoldsLock,
            LetGo::NothingLeft,
        ][..],
    );
    prop_oneof![
        vec(facts(), 0..50).prop_map(|sites| What::Code(sites.into())),
        Just(What::CodeGone),
        vec((site(), counts()), 0..20).prop_map(What::Told),
        any::<u64>().prop_map(|function| What::New(FunctionId(function))),
        Just(What::WatchesAhead),
        time().prop_map(|apart| What::Profiles { apart }),
        (time(), vec(arrivals(), 0..64), vec(met(), 0..8), number()).prop_map(
            |(lasted, arrivals, met, cost_s)| What::Profiled {
                lasted,
                arrivals,
                met,
                cost_s
            }
        ),
        vec(stood(), 0..64).prop_map(|all| What::Stood(all.into())),
        vec(site(), 0..64).prop_map(|sites| What::Refused(sites.into())),
        any::<bool>().prop_map(What::SeesPreempted),
        site().prop_map(What::Seen),
        any::<u64>().prop_map(|function| What::Executes(FunctionId(function))),
        variable().prop_map(What::Changes),
        any::<u32>().prop_map(What::Threads),
        (site(), time()).prop_map(|(site, waited)| What::Nobody { site, waited }),
        (site(), time()).prop_map(|(site, waited)| What::Came { site, waited }),
        (site(), address()).prop_map(|(site, address)| What::About { site, address }),
        (site(), address(), time(), partners()).prop_map(|(site, address, lasted, users)| {
            What::Passed {
                site,
                address,
                lasted,
                users,
            }
        }),
        time().prop_map(|waited| What::NoSample { waited }),
        (site(), why).prop_map(|(site, why)| What::LetGo { site, why }),
        (site(), time(), end).prop_map(|(site, lasted, end)| What::Held { site, lasted, end }),
        (site(), time(), partners(), any::<bool>()).prop_map(
            |(site, lasted, users, is_private)| What::Looked {
                site,
                lasted,
                users,
                is_private
            }
        ),
        (variable(), time(), partners()).prop_map(|(variable, lasted, writers)| What::Watched {
            variable,
            lasted,
            writers
        }),
        number().prop_map(What::Cost),
    ]
}

/// Any number, those included that no text would keep.
fn number() -> impl Strategy<Value = f64> {
    use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn record() -> impl Strategy<Value = Record> {
    let time = any::<Duration>;
    let id = || any::<u64>().prop_map(ActionId);
    let event = (option::of(id()), what()).prop_map(|(of, what)| Event { of, what });
    let purse = (number(), 1e-6f64..1e6, number(), number());
    let purse = purse.prop_map(|(left_s, income, most_s, credit_s)| Purse {
        // No debt lasts for ever.
        left_s: left_s.max(-1e-3 - left_s.abs().fract()),
        income,
        most_s,
        credit_s,
    });
    let action = (id(), deed()).prop_map(|(id, deed)| Action { id, deed });
    let stopped = (
        time(),
        vec(site(), 0..4),
        option::of(time()),
        option::of((site(), then())),
    );
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(seed, priors)| Record::Begun { seed, priors }),
        (time(), event).prop_map(|(now, event)| Record::Observed(now, event)),
        (time(), purse, action)
            .prop_map(|(now, purse, action)| Record::Decided(now, purse, action)),
        stopped.prop_map(|(now, ahead, waited, answer)| Record::Stopped {
            now,
            ahead,
            waited,
            answer
        }),
        (
            time(),
            vec((site(), time()), 0..5),
            option::of((0_usize..9, time()))
        )
            .prop_map(|(now, all, answer)| Record::Preempted {
                now,
                all: (all.into_iter())
                    .map(|(site, left)| Candidate { site, left })
                    .collect(),
                answer,
            }),
        Just(Record::Lost),
        Just(Record::Ended),
    ]
}

proptest! {
    /// Check that any record is read as it was written, to the last bit of each number, whatever stands before and behind it, and can be put into words, on one line.
    #[test]
    fn records_are_kept(records in vec(record(), 1..8)) {
        let (same, is_cut) = read(&written(&records)).unwrap();
        prop_assert!(!is_cut);
        // Equality takes -0 for 0.
        prop_assert_eq!(format!("{same:?}"), format!("{records:?}"));
        let mut words = Words::default();
        for record in &same {
            let line = words.line(PROCESS, record);
            prop_assert!(line.len() > 20 && !line.contains(char::is_control));
        }
    }

    /// Check that a log with any bytes changed is read, put into words and replayed without a panic, to an end, and that nothing comes after an error.
    #[test]
    fn any_bytes_are_taken(
        records in vec(record(), 0..8),
        family in 0..families::ALL.len(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let begins = beginning().len();
        let of_hunt = hunt(family, 3.0, 7).1;
        for mut file in [written(&records), written(&of_hunt)] {
            for (at, byte) in &changes {
                let at = begins + at.index(file.len() - begins);
                file[at] = *byte;
            }
            let mut reader = Reader::new(&file[..]).unwrap();
            let mut replay = Replay::default();
            let mut words = Words::default();
            while let Some(Ok((process, record))) = reader.next() {
                words.line(process, &record);
                let _ = replay.take(process, record);
            }
            prop_assert!(reader.next().is_none());
        }
    }
}

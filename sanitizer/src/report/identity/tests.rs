//! What changes names, and what does not.

use super::*;
use crate::report::hex::Hex;
use crate::report::sample;

/// A race with lines, functions and a variable on both sides.
fn race() -> Race {
    let mut race = sample::race();
    for access in &mut race.accesses {
        access.stack.truncate(1);
        let frame = &mut access.stack[0];
        frame.function = Some("ns::bump<int>(int)".to_owned());
        frame.file = Some("/src/worker.cpp".to_owned());
        (frame.line, frame.function_line) = (Some(12), Some(10));
        frame.inlined = false;
    }
    race
}

/// Check names against those of the first release that had them: they are stored.
#[test]
fn names_never_change() {
    let names = identity(&race());
    assert_eq!(
        names.pair.as_deref(),
        Some("p3:cddf5207fdf2dee1bd958e76f741b772")
    );
    assert_eq!(names.race, "r3:a89817696f08dcb4e32d8329c4b1ef95");
    assert_eq!(names.issue, "i3:af6335fdeaaa1944bf6147e29a54c37a");
}

/// Check that names are made of what the JSON form has: whoever has stored that can make them anew.
#[test]
fn names_can_be_made_anew() {
    let mut race = race();
    race.identity = identity(&race);
    let stored = serde_json::to_string(&race).unwrap();
    let stored: Race = serde_json::from_str(&stored).unwrap();
    assert_eq!(identity(&stored), stored.identity);
}

type Change = fn(&mut Race);

/// Check that nothing which a rebuild changes, or another run, changes the name of a race.
#[test]
fn what_a_rebuild_changes() {
    let reference = identity(&race());
    let changes: [(&str, Change); 10] = [
        ("lines added above", |race| {
            for frame in race.accesses.iter_mut().flat_map(|a| &mut a.stack) {
                frame.line = frame.line.map(|line| line + 40);
                frame.function_line = frame.function_line.map(|line| line + 40);
            }
        }),
        ("another folder", |race| {
            race.accesses[0].stack[0].file = Some("../b/worker.cpp".to_owned());
            race.accesses[0].stack[0].module = Some("/b/libwork.so.2".to_owned());
        }),
        ("another build", |race| {
            race.accesses[0].stack[0].build_id = Some("00".to_owned());
            race.accesses[0].stack[0].offset = Hex(0x99);
        }),
        ("another column", |race| {
            race.accesses[0].stack[0].column = Some(77)
        }),
        ("another instance", |race| {
            race.accesses[0].stack[0].function = Some("void ns::bump<long>(long)".to_owned());
        }),
        ("several elements", |race| {
            race.location.member = Some("[]".to_owned());
        }),
        ("two instructions", |race| {
            race.accesses[0].kind = AccessKind::ReadWrite
        }),
        ("a part of the variable", |race| {
            race.location.name = Some("counter.0".to_owned());
            race.location.offset = Some(0);
        }),
        ("what is inlined of a library", |race| {
            let mut inner = race.accesses[0].stack[0].clone();
            inner.file = Some("/usr/include/c++/14/bits/move.h".to_owned());
            inner.function = Some("std::swap<int>(int&, int&)".to_owned());
            race.accesses[0].stack.insert(0, inner);
        }),
        ("the other side is stalled", |race| race.accesses.reverse()),
    ];
    for (what, change) in changes {
        let mut changed = race();
        change(&mut changed);
        let names = identity(&changed);
        assert_eq!(names.race, reference.race, "{what}");
        assert_eq!(names.issue, reference.issue, "{what}");
    }
}

/// Check that two races of the same functions have two names, and are one issue.
#[test]
fn races_of_one_issue() {
    let reference = identity(&race());
    let changes: [(&str, Change); 7] = [
        ("other parameters", |race| {
            race.accesses[0].stack[0].function = Some("ns::bump(long)".to_owned());
        }),
        ("another line", |race| {
            race.accesses[0].stack[0].line = Some(13)
        }),
        ("a read", |race| race.accesses[0].kind = AccessKind::Read),
        ("an atomic one", |race| race.accesses[0].atomic = true),
        ("another variable", |race| {
            race.location.name = Some("other".to_owned())
        }),
        ("another member", |race| {
            race.location.member = Some(".hits".to_owned())
        }),
        ("no line", |race| race.accesses[0].stack[0].line = None),
    ];
    for (what, change) in changes {
        let mut changed = race();
        change(&mut changed);
        let names = identity(&changed);
        assert_ne!(names.race, reference.race, "{what}");
        assert_eq!(names.issue, reference.issue, "{what}");
    }
    let changes: [(&str, Change); 2] = [
        ("another function", |race| {
            race.accesses[1].stack[0].function = Some("ns::reset()".to_owned());
        }),
        ("one of another file", |race| {
            race.accesses[1].stack[0].file = Some("/src/other.cpp".to_owned());
        }),
    ];
    for (what, change) in changes {
        let mut other = race();
        change(&mut other);
        assert_ne!(identity(&other).race, reference.race, "{what}");
        assert_ne!(identity(&other).issue, reference.issue, "{what}");
    }
}

/// Check that without names of functions a race is the same in the same build only, and that without a build id it has no exact name.
#[test]
fn stripped_builds() {
    let mut stripped = race();
    for frame in stripped.accesses.iter_mut().flat_map(|a| &mut a.stack) {
        (frame.function, frame.file, frame.line) = (None, None, None);
    }
    let reference = identity(&stripped);
    let mut called = stripped.clone();
    for access in &mut called.accesses {
        let caller = sample::race().accesses[0].stack[2].clone();
        access.stack.push(caller);
    }
    assert_eq!(
        identity(&called).race,
        reference.race,
        "a caller has a name"
    );
    stripped.accesses[0].stack[0].build_id = Some("00".to_owned());
    assert_ne!(identity(&stripped).race, reference.race);
    stripped.accesses[0].stack[0].build_id = None;
    assert_eq!(identity(&stripped).pair, None);
}

/// Check that a line before its function's declaration, which is in another file, is told by that file.
#[test]
fn lines_of_other_files() {
    let mut included = race();
    included.accesses[0].stack[0].line = Some(3);
    assert_eq!(line(&included.accesses[0].stack[0]), ":3");
    assert_ne!(identity(&included).race, identity(&race()).race);
}

/// Check what is taken for a name.
#[test]
fn forms() {
    let hash = "0123456789abcdef0123456789abcdef";
    assert_eq!(check(&format!("r3:{hash}")), Ok(()));
    assert_eq!(check(&format!("i3:{hash}")), Ok(()));
    assert_eq!(check(&format!("p1:{hash}")), Err(NoName::Version(1)));
    for text in [
        "",
        "r3:",
        "r3:12",
        hash,
        "x3:0123456789abcdef0123456789abcdef",
        "r3:0123456789ABCDEF0123456789abcdef",
    ] {
        assert_eq!(check(text), Err(NoName::Form), "{text}");
    }
}

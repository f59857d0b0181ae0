//! The page, as a parser of HTML that is not ours reads it.

use std::collections::BTreeSet;

use super::testing::{
    HOSTILE, all, assert_escapes, assert_sound, body, called, parsed, shape, text,
};
use super::*;
use crate::report::clean::clean;
use crate::report::writer::testing::kept;
use crate::report::{WatchedProgram, sample};

fn written(races: &[Race], summary: Option<&Summary>, has_baseline: bool) -> String {
    let (out, written) = kept();
    let mut writer = HtmlWriter::new(out, "test", has_baseline);
    for race in races {
        writer.race(race).unwrap();
    }
    assert_eq!(written(), "");
    match summary {
        Some(summary) => writer.summary(summary).unwrap(),
        None => writer.without_summary().unwrap(),
    }
    assert!(writer.take_unwritten().is_empty());
    written()
}

/// Check that a page has no error, and that all of a race is in it: both threads and stacks, the source with the column marked, times, values, notes, names and
/// what suppresses it.
#[test]
fn all_is_on_the_page() {
    let race = sample::race();
    let summary = Summary {
        programs: vec![WatchedProgram {
            exe: "/opt/bin/app".to_owned(),
            build_id: Some("aabbcc".to_owned()),
            processes: 3,
        }],
        races_unique: 1,
        races_total: 4,
        dropped: 2,
        ..Summary::default()
    };
    let page = written(std::slice::from_ref(&race), Some(&summary), true);
    let document = parsed(&page);
    assert_eq!(text(all(&document, "h1")[0]), "1 data race in app");
    assert_eq!(all(&document, "article").len(), 1);
    let shown = body(&document);
    for part in [
        "/opt/bin/app in 3 processes",
        "build id aabbcc",
        "by the clock of the machine that wrote this page",
        "1 data race was caught (4 times in all); more may exist where nothing was watched.",
        "Memory was watched for 0.0 s of 0.0 s (0 stalls).",
        "2 findings dropped",
        "findings dropped",
        "/src/worker.c:7:5 in bump / (/opt/bin/app+0x2200)",
        "Data race on 'counter': write by thread 'worker' (tid=11) in bump, concurrent atomic read",
        "new: the baseline does not have it",
        "Write of size 4 stalled",
        "Concurrent atomic read of size 4 racing",
        "'worker' (tid=11)",
        "'reader\\u{1b}[31m' (tid=12)",
        "main /src/main.c:20",
        "0x555500004010",
        "0x555500001139",
        "libwork.so+0x1139",
        "bump inlined",
        "unknown function",
        "The stack goes on.",
        "Lines around /src/worker.c:7:5 (changed since the program was built)",
        "plain-atomic: one access is atomic, the other is not",
        "global 'counter' of size 16 at 0x55550000400c (app+0x400c), 4 bytes into it",
        "4 bytes at 0x555500004010: 0x0000000a before, 0x0000000b after",
        "The racing stack is truncated.",
        "Thread 'worker' (tid=11) stands right before its write. The watched bytes hold 0x0000000a then.",
        "2026-01-02T03:04:05.000000006Z: Thread 'reader\\u{1b}[31m' (tid=12) makes its atomic read meanwhile.",
        "Thread 'worker' (tid=11) is let go, and makes its write.",
        "r3:00112233445566778899aabbccddeeff",
        "i3:ffeeddccbbaa99887766554433221100",
        "0123456789abcdef0123456789abcdef",
        "identity:r3:00112233445566778899aabbccddeeff",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(text(all(&document, "svg .clock")[0]), "03:04:05.000");
    let line = all(&document, ".source .here td")[0];
    let line: String = line.text().collect();
    assert_eq!(line, "    counter++;");
    assert_eq!(text(all(&document, "mark")[0]), "c");
    for access in &race.accesses {
        let frames = all(
            &document,
            &format!(".side.{} .stack > li", access.role.name()),
        );
        assert_eq!(frames.len(), access.stack.len());
    }
    assert!(!shown.contains("other races than there are below"));
}

/// Check that known races are told from others, also without a baseline, and that nothing is said of being new then; that races without stacks or names, and such as have
/// names of another version, make a page without errors; and that the page says so where the figures are of other races.
#[test]
fn races_of_all_kinds() {
    let known = Race {
        known: true,
        ..sample::race()
    };
    let mut bare = sample::race();
    bare.identity.race = "r9:00112233445566778899aabbccddeeff".to_owned();
    bare.time = "yesterday".to_owned();
    bare.value_before = None;
    bare.value_after = None;
    bare.notes.clear();
    bare.accesses
        .iter_mut()
        .for_each(|access| access.stack.clear());
    let page = written(&[known, bare], Some(&Summary::default()), false);
    let document = parsed(&page);
    assert_eq!(
        text(all(&document, "h1")[0]),
        "2 data races in app (1 known)"
    );
    let states = all(&document, ".state");
    assert!(states.iter().all(|state| text(*state).starts_with("known")));
    assert_eq!(states.len(), 2);
    assert_eq!(all(&document, ".overview tbody tr").len(), 2);
    let shown = body(&document);
    assert!(shown.contains("it has counted other races than there are below"));
    assert!(shown.contains("The names of this record are of another version"));
    assert!(
        all(&document, "svg .clock")
            .iter()
            .any(|clock| text(*clock) == "time")
    );
}

/// Check that a page without races says so, what was watched, and that this proves nothing; and that a record without an end is not taken for a run in which
/// nothing was watched.
#[test]
fn without_races() {
    let summary = Summary {
        elapsed_s: 30.0,
        stalls: 12,
        watched_s: 0.25,
        programs: vec![WatchedProgram {
            exe: "/opt/bin/app".to_owned(),
            build_id: None,
            processes: 1,
        }],
        sites_total: Some(40),
        sites_sampled: Some(3),
        ..Summary::default()
    };
    let document = parsed(&written(&[], Some(&summary), false));
    assert_eq!(
        text(all(&document, "h1")[0]),
        "No data race was caught in app"
    );
    let shown = body(&document);
    for part in [
        "No data race was caught, which does not prove that there is none.",
        "Memory was watched for 250.0 ms of 30.0 s (12 stalls).",
        "3 of 40 access sites sampled",
        "There is none on this page.",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(all(&document, "article").is_empty());
    let document = parsed(&written(&[], None, false));
    assert_eq!(text(all(&document, "h1")[0]), "No data race is recorded");
    let shown = body(&document);
    assert!(shown.contains("the record has no summary") && !shown.contains("0 stalls"));
}

/// Check that nothing which a target can name changes the page: its elements and their attributes are those of a page with harmless names, and the
/// names are shown as they are.
#[test]
fn names_are_text() {
    let harmless = called("name");
    let expected = shape(&parsed(&written(&[harmless.0], Some(&harmless.1), true)));
    assert!(expected.len() > 100);
    for name in HOSTILE {
        let (race, summary) = called(name);
        let page = written(&[race], Some(&summary), true);
        let document = parsed(&page);
        assert_eq!(shape(&document), expected, "{name}");
        let shown = body(&document);
        let cleaned = clean(name);
        let name: Vec<&str> = cleaned.split_whitespace().collect();
        let times = shown.matches(&name.join(" ")).count();
        assert!(times > 40, "{name:?}: {times} times in {shown}");
        let unseen = page
            .chars()
            .find(|&c| c != '\n' && super::super::clean::is_unseen(c));
        assert_eq!(unseen, None);
    }
}

/// Check that the page needs nothing that is elsewhere, and forbids what it has no need of; that what refers to an element has one, and that no two have one name.
#[test]
fn the_page_stands_alone() {
    let page = written(
        &[sample::race(), sample::race()],
        Some(&Summary::default()),
        false,
    );
    for word in [
        "http:", "https:", "<script", "<link", "url(", "@import", " src=",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    let document = parsed(&page);
    let policy = all(&document, "meta[http-equiv]")[0];
    let policy = policy.attr("content").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'unsafe-inline'"));
    assert_sound(&document);
    assert!(all(&document, "table").len() > 2);
    let named = all(&document, "[id]");
    let names: BTreeSet<_> = named
        .iter()
        .filter_map(|element| element.attr("id"))
        .collect();
    for element in all(&document, "a") {
        let target = element.attr("href").unwrap();
        assert!(names.contains(target.strip_prefix('#').unwrap()));
    }
}

/// Check that no template lets anything through as it is.
#[test]
fn templates_escape() {
    let templates = [
        include_str!("../../../templates/report.html"),
        include_str!("../../../templates/race.html"),
        include_str!("../../../templates/side.html"),
    ];
    templates.into_iter().for_each(assert_escapes);
}

/// Check that all text can be read on what it stands on, in light and in dark (WCAG 2.2, success criterion 1.4.3: a contrast of 4.5).
#[test]
fn contrast() {
    const STYLE: &str = include_str!("../../../templates/report.css");
    let colours = |part: &str| {
        let part = part.to_owned();
        move |name: &str| {
            let (_, rest) = part.split_once(&format!("--{name}: #")).unwrap();
            let number = u32::from_str_radix(&rest[..6], 16).unwrap();
            let [_, channels @ ..] = number.to_be_bytes();
            let [red, green, blue] = channels.map(|channel| {
                let share = f64::from(channel) / 255.0;
                if share <= 0.040_45 {
                    share / 12.92
                } else {
                    ((share + 0.055) / 1.055).powf(2.4)
                }
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        }
    };
    let (light, dark) = STYLE
        .split_once("@media (prefers-color-scheme: dark)")
        .unwrap();
    for part in [light, dark] {
        let luminance = colours(part);
        for (text, ground) in [
            ("ink", "paper"),
            ("ink", "panel"),
            ("ink", "warn"),
            ("quiet", "paper"),
            ("quiet", "panel"),
            ("link", "paper"),
            ("link", "panel"),
            ("stalled", "panel"),
            ("racing", "panel"),
            ("paper", "stalled"),
            ("mark-ink", "mark"),
        ] {
            let [one, other] = [text, ground].map(&luminance);
            let ratio = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(ratio >= 4.5, "{text} on {ground}: {ratio:.2}");
        }
    }
}

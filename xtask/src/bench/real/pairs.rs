//! Pairs of source lines that race, from the reports of gwp-race and of ThreadSanitizer.
//!
//! What the compiler has put together from several lines has none: its place is the function, `file:function`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use crate::bench::reported::races;

/// Two places, `file:line`, or `file:function` where the line is not known, the lesser one first.
pub type Pair = (String, String);

fn pair(one: String, other: String) -> Pair {
    if one <= other {
        (one, other)
    } else {
        (other, one)
    }
}

/// Those of gwp-race's JSON that were reported until a time.
pub fn of_gwp_race(report: &str, until: SystemTime) -> BTreeSet<Pair> {
    let times = times_of_gwp_race(report).into_iter();
    let until = times.filter(|(_, time)| *time <= until);
    until.map(|(pair, _)| pair).collect()
}

/// Those of gwp-race's JSON, and when each was reported first.
pub fn times_of_gwp_race(report: &str) -> BTreeMap<Pair, SystemTime> {
    let mut times = BTreeMap::new();
    let reported = races(report).filter_map(|race| {
        let time = humantime::parse_rfc3339(race["time"].as_str()?).ok()?;
        let [one, other] = [0, 1].map(|index| {
            let frames = race["accesses"][index]["stack"].as_array()?;
            frames.iter().find_map(|frame| {
                let number = frame["line"].as_u64().map(|line| line.to_string());
                let line = number.as_deref().or_else(|| frame["function"].as_str());
                place(frame["file"].as_str()?, line?)
            })
        });
        Some((pair(one?, other?), time))
    });
    for (pair, time) in reported {
        let first = times.entry(pair).or_insert(time);
        *first = time.min(*first);
    }
    times
}

/// Those of ThreadSanitizer's text: a warning has a stack for each of the two accesses, and further ones.
pub fn of_thread_sanitizer(log: &str) -> BTreeSet<Pair> {
    log.split("WARNING: ThreadSanitizer: data race")
        .skip(1)
        .filter_map(|warning| {
            let warning = warning.split("SUMMARY:").next()?;
            // Stacks are parted by empty lines; those of the accesses come first.
            let mut stacks = warning
                .split("\n\n")
                .map(|stack| stack.lines().find_map(frame));
            Some(pair(stacks.next()??, stacks.next()??))
        })
        .collect()
}

/// The place of a frame, `#0 function /path/file.c:12:3 (module+0x1)`, if it is known. Without a line it is
/// `#0 function /path/file.c (module+0x1)`.
fn frame(line: &str) -> Option<String> {
    let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
    let (function, place) = (words.nth(1)?, words.next()?);
    let mut parts = place.split(':');
    let file = parts.next().filter(|file| file.contains('/'))?;
    let line = parts.next().filter(|line| *line != "0");
    self::place(file, line.unwrap_or(function))
}

/// A place in the program; the runtime of a sanitizer and the C library are none.
fn place(file: &str, line: &str) -> Option<String> {
    let name = file.rsplit('/').next()?;
    let foreign = ["sanitizer_common", "/tsan/", "glibc", "sysdeps"];
    let known = !foreign.iter().any(|part| file.contains(part));
    known.then(|| format!("{name}:{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn expected(pairs: &[(&str, &str)]) -> BTreeSet<Pair> {
        let own = |(one, other): &(&str, &str)| ((*one).to_owned(), (*other).to_owned());
        pairs.iter().map(own).collect()
    }

    /// Check that a memory routine's access is its caller's, and that the order does not matter.
    #[test]
    fn of_json() {
        let side = |stack: &str| format!("{{\"stack\":[{stack}]}}");
        let race = |one: &str, other: &str| {
            let (one, other) = (side(one), side(other));
            let time = "2026-11-24T06:35:15.5Z";
            format!("{{\"type\":\"race\",\"time\":\"{time}\",\"accesses\":[{one},{other}]}}\n")
        };
        let at = |file: &str, line: u64| format!("{{\"file\":\"{file}\",\"line\":{line}}}");
        let routine = "{\"file\":null,\"line\":null}";
        let text = race(&at("/src/b.c", 7), &at("/src/a.c", 3))
            + &race(
                &format!("{routine},{}", at("/src/a.c", 3)),
                &at("/src/b.c", 7),
            )
            + &race(
                "{\"function\":\"tick\",\"file\":\"/src/b.c\",\"line\":null}",
                &at("/src/a.c", 3),
            )
            + "{\"type\":\"summary\"}\n";
        let reported = humantime::parse_rfc3339("2026-11-24T06:35:16Z").expect("a time");
        assert_eq!(
            of_gwp_race(&text, reported),
            expected(&[("a.c:3", "b.c:7"), ("a.c:3", "b.c:tick")])
        );
        let before = reported - Duration::from_secs(1);
        assert!(of_gwp_race(&text, before).is_empty());
        let later = text.replace("06:35:15.5", "06:35:19.5") + &text;
        assert_eq!(times_of_gwp_race(&later), times_of_gwp_race(&text));
    }

    /// Check the same of ThreadSanitizer's text.
    #[test]
    fn of_text() {
        let text = "\
==================
WARNING: ThreadSanitizer: data race (pid=1)
  Write of size 8 at 0x7b by thread T1 (mutexes: write M0):
    #0 memcpy /build/llvm/compiler-rt/lib/tsan/../sanitizer_common/sanitizer.inc:115:5 (memcached+0x1)
    #1 item_link /src/items.c:12:3 (memcached+0x2)

  Previous read of size 8 at 0x7b by thread T4:
    #0 item_get /src/items.c:9:1 (memcached+0x3) (BuildId: 00)
    #1 main <null> (memcached+0x4)

  Thread T1 (tid=2, running) created by main thread at:
    #0 pthread_create <null> (memcached+0x5)
    #1 start /src/thread.c:1:1 (memcached+0x6)

SUMMARY: ThreadSanitizer: data race /src/items.c:12:3 in item_link
==================
==================
WARNING: ThreadSanitizer: data race (pid=1)
  Write of size 4 at 0x9b by main thread:
    #0 tick /src/clock.c (memcached+0x6)
    #1 <null> <null> (libevent.so+0x7)

  Previous read of size 4 at 0x9b by thread T4:
    #0 item_get /src/items.c:10 (memcached+0x8)

  Thread T4 (tid=2, running) created by main thread at:
    #0 start /src/thread.c:1:1 (memcached+0x9)

SUMMARY: ThreadSanitizer: data race /src/clock.c in tick
==================
==================
WARNING: ThreadSanitizer: data race (pid=1)
  Write of size 4 at 0x9b by main thread:
    #0 tick /src/clock.c (memcached+0x6)

  Previous read of size 4 at 0x9b by thread T4:
    [failed to restore the stack]

  Thread T4 (tid=2, running) created by main thread at:
    #0 start /src/thread.c:1:1 (memcached+0x9)

SUMMARY: ThreadSanitizer: data race /src/clock.c in tick
==================
";
        assert_eq!(
            of_thread_sanitizer(text),
            expected(&[("items.c:12", "items.c:9"), ("clock.c:tick", "items.c:10")])
        );
        assert_eq!(of_thread_sanitizer("memcached starts\n"), expected(&[]));
    }
}

//! The forms of a race as users see them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::sample::{finding, race};
use super::*;
use crate::symbols::Symbolizer;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).expect("reports are UTF-8")
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Check the whole text of a report, control characters in names included.
#[test]
fn text_report() {
    let expected = "\
==================
WARNING: gwp-race: data race (pid=10)
  Locks: the stalled side holds mutex 'cache.lock' (0x555500004040), the racing side does not
  Write of size 4 at 0x555500004010 by thread 'worker' (tid=11) running main /src/main.c:20 [stalled]:
    #0 bump /src/worker.c:7:5 (libwork.so+0x1139) (BuildId: aabbcc) [inlined]
         7 |     counter++;
           |     ^
           (changed since the program was built)
    #1 work /src/worker.c:12:5 (libwork.so+0x1139) (BuildId: aabbcc)
    #2 main /src/main.c:30:5 (app+0x2100) (BuildId: aabbcc)
    created by: thread 'app' (tid=10) in start_all /src/main.c:31
    holds: mutex 'cache.lock' (0x555500004040), for writing

  Concurrent atomic read of size 4 at 0x555500004010 by thread 'reader\\u{1b}[31m' (tid=12) [racing]:
    #0 <null> <null> (app+0x2200) (BuildId: aabbcc)
    [the stack goes on]
    holds: none known

  Location is global 'counter' of size 16 at 0x55550000400c (app+0x400c), 4 bytes into it
  Value of the watched 4 bytes at 0x555500004010: 0x0000000a before, 0x0000000b after
  Verdict is plain-atomic: one access is atomic, the other is not; both were under way at the same time
  Note: the racing stack is truncated.
  Fingerprint is 0123456789abcdef0123456789abcdef
  Identity is r3:00112233445566778899aabbccddeeff, issue i3:ffeeddccbbaa99887766554433221100: the same after a rebuild

SUMMARY: gwp-race: data race /src/worker.c:7:5 in bump / (/opt/bin/app+0x2200)
==================
";
    assert_eq!(race_text(&race()), expected);
}

/// Check that JSON lines parse, carry every field of the contract, and read back the same.
#[test]
fn json_lines() {
    let sink = Sink::default();
    let mut writer = JsonWriter::new(Box::new(sink.clone()), "memory");
    writer.race(&race()).expect("write");
    writer.summary(&Summary::default()).expect("write");
    let text = sink.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);

    let value: Value = serde_json::from_str(lines[0]).expect("a JSON object");
    let has = |value: &Value, fields: &str| {
        for field in fields.split_whitespace() {
            assert!(value.get(field).is_some(), "no {field} in {value}");
        }
    };
    has(
        &value,
        "type schema fingerprint identity known verdict pid exe build_id time address size location \
         value_before value_after accesses",
    );
    assert_eq!(value["type"], "race");
    assert_eq!(value["schema"], 1);
    assert_eq!(value["verdict"], "plain-atomic");
    assert_eq!(value["address"], "0x555500004010");
    has(&value["location"], "kind name member offset");
    has(&value["identity"], "pair race issue");
    assert_eq!(value["location"]["kind"], "global");
    assert_eq!(value["location"]["offset"], 4);
    let accesses = value["accesses"].as_array().expect("an array");
    assert_eq!(accesses.len(), 2);
    for (access, role) in accesses.iter().zip(["stalled", "racing"]) {
        has(
            access,
            "role kind atomic size address pc tid thread_name thread_start created_by module offset stack",
        );
        has(access, "introduced_read stack_truncated holds");
        assert_eq!(access["role"], role);
        for frame in access["stack"].as_array().expect("an array") {
            has(
                frame,
                "pc module offset function function_line file line column inlined source",
            );
        }
    }
    assert_eq!(accesses[0]["kind"], "write");
    assert_eq!(accesses[1]["holds"], serde_json::json!([]));
    let holds = serde_json::json!([
        {"kind": "mutex", "mode": "write", "name": "cache.lock", "address": "0x555500004040"}
    ]);
    assert_eq!(accesses[0]["holds"], holds);
    assert_eq!(accesses[1]["stack"][0]["function"], Value::Null);
    let back: Race = serde_json::from_str(lines[0]).expect("reads back");
    assert_eq!(back, race());

    let value: Value = serde_json::from_str(lines[1]).expect("a JSON object");
    assert_eq!(value["type"], "summary");
    let mut fields: Vec<&str> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    let mut contract: Vec<&str> = "type programs elapsed_s samples stalls hits hits_swallowed \
        races_unique races_known races_total sites_total sites_sampled watched_s analyzed_percent hottest_unanalyzed \
        unwatchable_threads threads_created threads_left_alone own_stops times_let_alone let_alone_s not_watched value_changed_unknown_origin target_stopped_s target_cpu_s slowdown_percent one_cpu_percent \
        schema no_stall site_waits site_waits_met stalls_of_preempted stalls_cut_short watchdog_releases dropped decisions spent_s readers_ended files_not_read suppressions_unused \
        probe_bursts probe_hits probes_armed probes_hot arrivals arrivals_stopped max_overhead_percent sample_period_s metadata_seen sightings"
        .split_whitespace()
        .collect();
    contract.sort_unstable();
    assert_eq!(fields, contract);
    assert_eq!(value["sites_total"], Value::Null);
}

/// Check that findings survive the trip between processes.
#[test]
fn findings_travel() {
    let finding = finding();
    let bytes = postcard::to_stdvec(&finding).expect("serialize");
    assert_eq!(
        postcard::from_bytes::<Finding>(&bytes).expect("deserialize"),
        finding
    );
}

/// Check that a finding without any module still becomes a report, with what is known.
#[test]
fn builds_from_bare_facts() {
    let race = build_race(&mut Symbolizer::new(), &finding(), &[]);
    assert_eq!((race.address, race.size), (Hex(0x8004), 2));
    assert_eq!(race.time, "2026-01-02T03:04:05.000000006Z");
    assert_eq!(race.value_before.as_deref(), Some("0x0000000000000001"));
    assert_eq!(race.racing().pc, Hex(0x2000));
    assert_eq!(race.racing().stack[0].pc, Hex(0x2000));
    assert!(race.racing().stack_truncated);
    assert_eq!(race.location.kind, LocationKind::Unknown);
    assert!(race_text(&race).contains("#0 <null> <null> (0x2000)"));
    let [lock] = &race.stalled().holds[..] else {
        panic!("{race:?}");
    };
    assert_eq!((lock.address, &lock.name), (Hex(0x9000), &None));
    assert!(race.racing().holds.is_empty());
}

/// Check that a memory routine that no symbol table names is shown by the name by which it was
/// called.
#[test]
fn names_routines() {
    let mut facts = finding();
    facts.racing.routine = Some("__memcpy_chk".to_owned());
    let race = build_race(&mut Symbolizer::new(), &facts, &[]);
    assert!(race.racing().in_memory_routine());
    assert!(race_text(&race).contains("#0 __memcpy_chk "));
    assert!(!race.stalled().in_memory_routine());
    assert!(
        race.notes
            .iter()
            .any(|note| note.contains("for its caller"))
    );
}

/// Check that each caveat of a finding becomes a note.
#[test]
fn notes_caveats() {
    let mut facts = finding();
    facts.racing.introduced_read = true;
    facts.value_after = vec![2, 0, 0, 0, 0, 0, 0, 0];
    let notes = build_race(&mut Symbolizer::new(), &facts, &[])
        .notes
        .join("\n");
    assert!(
        notes.contains("the racing read may be compiler-introduced"),
        "{notes}"
    );
    assert!(notes.contains("the stalled stack is truncated"), "{notes}");
    assert!(
        notes.contains("changed as well while the stalled thread was held"),
        "{notes}"
    );
    facts.racing.kind = crate::insn::AccessKind::Write;
    facts.value_after = facts.value_before.clone();
    let notes = build_race(&mut Symbolizer::new(), &facts, &[])
        .notes
        .join("\n");
    assert!(
        notes.contains("left the watched bytes as they were"),
        "{notes}"
    );
}

struct Broken(i32);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(self.0))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Check that write errors name the file, and that a closed pipe can be told apart.
#[test]
fn write_errors() {
    let mut writer = TextWriter::new(Box::new(Broken(libc::ENOSPC)), "/var/report", false);
    let error = writer.race(&race()).expect_err("no space");
    assert!(
        error
            .to_string()
            .starts_with("cannot write the report to /var/report: "),
        "{error}"
    );
    assert!(!error.is_closed());
    for code in [libc::EPIPE, libc::EBADF] {
        let mut writer = JsonWriter::new(Box::new(Broken(code)), "standard error");
        assert!(
            writer
                .summary(&Summary::default())
                .expect_err("closed")
                .is_closed()
        );
    }
}

/// Check that text summaries carry the figures only when asked.
#[test]
fn text_summary() {
    for (stats, lines) in [(false, 1), (true, 37)] {
        let sink = Sink::default();
        let mut writer = TextWriter::new(Box::new(sink.clone()), "memory", stats);
        writer.summary(&Summary::default()).expect("write");
        assert_eq!(sink.text().lines().count(), lines, "{}", sink.text());
    }
}

/// Check that the summary begins with a line of its own where the program writes as well, and only there.
#[test]
fn the_summary_is_set_apart() {
    let text = |beside: bool| {
        let mut sink = Sink::default();
        sink.write_all(b"no end of line").unwrap();
        let writer = TextWriter::new(Box::new(sink.clone()), "sink", false);
        let mut writer = if beside {
            writer.beside_output()
        } else {
            writer
        };
        writer.summary(&Summary::default()).unwrap();
        sink.text()
    };
    assert!(text(true).starts_with("no end of line\ngwp-race: "));
    assert!(text(false).starts_with("no end of linegwp-race: "));
}

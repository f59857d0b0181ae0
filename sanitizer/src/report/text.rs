//! Races as text, in the shape of ThreadSanitizer's reports (compiler-rt,
//! lib/tsan/rtl/tsan_report.cpp), so that tools that read those read ours.

use std::fmt::{self, Write as _};

use super::clean::clean;
use super::excerpt::write_excerpt;
use super::finding::RaceClass;
use super::model::{
    Access, CodeBlock, Identity, LiveValue, Location, LocationKind, Race, Role, ThreadStart,
};
use super::names;
use super::words::{capitalized, frame_text, global, padded, summary_places, what};

const RULE: &str = "==================";

/// The report of a race: several lines, or one for a race that is known.
#[must_use]
pub fn race_text(race: &Race) -> String {
    if race.known {
        let places = summary_places(race);
        let name = &race.identity.race;
        return format!("gwp-race: known data race (in the baseline, {name}): {places}\n");
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_race(&mut out, race);
    out
}

fn write_race(out: &mut String, race: &Race) -> fmt::Result {
    writeln!(out, "{RULE}")?;
    writeln!(out, "WARNING: gwp-race: data race (pid={})", race.pid)?;
    for access in &race.accesses {
        write_access(out, access)?;
        writeln!(out)?;
    }
    write_location(out, race)?;
    write_value(out, race)?;
    let verdict = match race.verdict {
        RaceClass::PlainPlain => "plain-plain: neither access is atomic",
        RaceClass::PlainAtomic => "plain-atomic: one access is atomic, the other is not",
    };
    writeln!(
        out,
        "  Verdict is {verdict}; both were under way at the same time"
    )?;
    for note in &race.notes {
        writeln!(out, "  Note: {note}")?;
    }
    writeln!(out, "  Fingerprint is {}", race.fingerprint)?;
    let Identity {
        race: name, issue, ..
    } = &race.identity;
    writeln!(
        out,
        "  Identity is {name}, issue {issue}: the same after a rebuild\n"
    )?;
    writeln!(out, "SUMMARY: gwp-race: data race {}", summary_places(race))?;
    writeln!(out, "{RULE}")
}

fn write_access(out: &mut String, access: &Access) -> fmt::Result {
    let what = what(access);
    let what = match access.role {
        Role::Stalled => capitalized(what),
        Role::Racing => format!("Concurrent {what}"),
    };
    let call = match &access.system_call {
        Some(call) => format!(" in the system call {call}(2)"),
        None => String::new(),
    };
    writeln!(
        out,
        "  {what} of size {} at {} by thread '{}' (tid={}){}{call} [{}]:",
        access.size,
        padded(access.address),
        clean(&access.thread_name),
        access.tid,
        runs(access.thread_start.as_ref()),
        access.role.name(),
    )?;
    for (number, frame) in access.stack.iter().enumerate() {
        writeln!(out, "    #{number} {}", frame_text(frame))?;
        write_excerpt(out, frame)?;
    }
    if let Some(block) = &access.block {
        let CodeBlock {
            number,
            address,
            size,
        } = block;
        writeln!(
            out,
            "    [in basic block {number}: {size} bytes at {address}]"
        )?;
    }
    for live in &access.live_values {
        let LiveValue {
            record,
            place,
            size,
            value,
        } = live;
        let value = value.map_or_else(|| "<null>".to_owned(), |value| value.to_string());
        writeln!(
            out,
            "    [live by stack map {record}: {place} = {value}, {size} bytes]"
        )?;
    }
    if access.stack_truncated {
        writeln!(out, "    [the stack goes on]")?;
    }
    Ok(())
}

/// What a thread runs.
fn runs(start: Option<&ThreadStart>) -> String {
    let Some(ThreadStart {
        function,
        file,
        line,
    }) = start
    else {
        return String::new();
    };
    let mut text = format!(" running {}", clean(function));
    if let Some(file) = file {
        let _ = write!(text, " {}", clean(file));
        if let Some(line) = line {
            let _ = write!(text, ":{line}");
        }
    }
    text
}

fn write_location(out: &mut String, race: &Race) -> fmt::Result {
    let Location {
        kind,
        name,
        offset,
        member,
        size,
        tid,
        ..
    } = &race.location;
    let name = name.as_deref().map_or("".into(), clean);
    let offset = offset.unwrap_or_default();
    let size = size.unwrap_or_default();
    let address = padded(race.address);
    match kind {
        LocationKind::Global => {
            write!(out, "  Location is {}", global(race))?;
            if offset != 0 {
                write!(out, ", {offset} bytes into it")?;
            }
            if let Some(member) = member.as_deref().filter(|member| !member.is_empty()) {
                let variable = names::variable(&name);
                write!(out, ": {variable}{}", clean(member))?;
            }
            writeln!(out)
        }
        LocationKind::Heap => {
            writeln!(
                out,
                "  Location is heap memory at {address}, {offset} bytes into [heap]"
            )
        }
        LocationKind::Stack => {
            let tid = tid.unwrap_or(race.pid);
            if name.is_empty() {
                writeln!(
                    out,
                    "  Location is stack of main thread (tid={tid}) at {address}"
                )
            } else {
                writeln!(
                    out,
                    "  Location is stack of thread '{name}' (tid={tid}) at {address}"
                )
            }
        }
        LocationKind::Mapping => {
            writeln!(
                out,
                "  Location is mapping '{name}' at {address}, offset {offset:#x}"
            )
        }
        LocationKind::Anonymous => writeln!(
            out,
            "  Location is anonymous memory at {address} (allocator or mmap), {offset} bytes \
             into a mapping of size {size}"
        ),
        LocationKind::Unknown => writeln!(out, "  Location is unknown memory at {address}"),
    }
}

fn write_value(out: &mut String, race: &Race) -> fmt::Result {
    let watched = format!(
        "{} bytes at {}",
        race.watch_size,
        padded(race.watch_address)
    );
    match (&race.value_before, &race.value_after) {
        (Some(before), Some(after)) => {
            writeln!(
                out,
                "  Value of the watched {watched}: {before} before, {after} after"
            )
        }
        (Some(before), None) => writeln!(out, "  Value of the watched {watched}: {before} before"),
        (None, Some(after)) => writeln!(out, "  Value of the watched {watched}: {after} after"),
        (None, None) => Ok(()),
    }
}

//! Races as text, in the shape of ThreadSanitizer's reports (compiler-rt,
//! lib/tsan/rtl/tsan_report.cpp), so that tools that read those read ours.

use std::fmt::{self, Write as _};

use super::clean::clean;
use super::excerpt::write_excerpt;
use super::locks::{holds, missing_lock};
use super::model::{Access, CodeBlock, Identity, LiveValue, Race, Role};
use super::words::{
    capitalized, creator, frame_text, location, padded, routine, summary_places, value, verdict,
    what,
};

const RULE: &str = "==================";

/// The report of a race: several lines, or one for a race that is known.
#[must_use]
pub fn race_text(race: &Race) -> String {
    if race.known {
        let places = summary_places(race);
        let name = &race.identity.race;
        return format!("gwp-race: known data race (in the baseline or store, {name}): {places}\n");
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_race(&mut out, race);
    out
}

fn write_race(out: &mut String, race: &Race) -> fmt::Result {
    writeln!(out, "{RULE}")?;
    writeln!(out, "WARNING: gwp-race: data race (pid={})", race.pid)?;
    if let Some(missing) = missing_lock(race) {
        writeln!(out, "  Locks: {missing}")?;
    }
    for access in &race.accesses {
        write_access(out, access)?;
        writeln!(out)?;
    }
    writeln!(out, "  Location is {}", location(race))?;
    if let Some(value) = value(race) {
        writeln!(out, "  Value of the watched {value}")?;
    }
    writeln!(out, "  Verdict is {}", verdict(race.verdict))?;
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
    let starts = match &access.thread_start {
        Some(start) => format!(" running {}", routine(start)),
        None => String::new(),
    };
    writeln!(
        out,
        "  {what} of size {} at {} by thread '{}' (tid={}){}{call} [{}]:",
        access.size,
        padded(access.address),
        clean(&access.thread_name),
        access.tid,
        starts,
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
    if let Some(creation) = &access.created_by {
        writeln!(out, "    created by: {}", creator(creation))?;
    }
    writeln!(out, "    holds: {}", holds(access))?;
    Ok(())
}

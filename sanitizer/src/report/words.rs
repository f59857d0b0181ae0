//! Words that several forms of reports have in common.

use std::fmt::Write as _;

use super::clean::clean;
use super::finding::RaceClass;
use super::hex::Hex;
use super::model::{
    Access, Location, LocationKind, Object, Race, StackFrame, ThreadCreation, ThreadStart,
};
use super::names;
use super::own_code::{is_own, own_place};
use crate::insn::AccessKind;
use crate::symbols::Frame;

/// What an access does.
pub(super) const fn what(access: &Access) -> &'static str {
    match (access.kind, access.atomic) {
        (AccessKind::Read, false) => "read",
        (AccessKind::Write, false) => "write",
        (AccessKind::ReadWrite, false) => "read-write",
        (AccessKind::Read, true) => "atomic read",
        (AccessKind::Write, true) => "atomic write",
        (AccessKind::ReadWrite, true) => "atomic read-write",
    }
}

/// `function file:line:column (module+offset)`, with `<null>` for what is not known.
pub(super) fn frame_text(frame: &StackFrame) -> String {
    let function = frame.function.as_deref().map_or("<null>".into(), clean);
    let source = source_place(frame).unwrap_or_else(|| "<null>".to_owned());
    let mut text = format!("{function} {source}");
    match &frame.module {
        Some(module) => {
            let _ = write!(text, " ({}+{})", clean(file_name(module)), frame.offset);
        }
        None => {
            let _ = write!(text, " ({})", frame.pc);
        }
    }
    if let Some(build_id) = &frame.build_id {
        let _ = write!(text, " (BuildId: {build_id})");
    }
    if frame.inlined {
        text.push_str(" [inlined]");
    }
    text
}

pub(super) fn source_place(frame: &StackFrame) -> Option<String> {
    let mut text = clean(frame.file.as_deref()?).into_owned();
    for number in [frame.line, frame.line.and(frame.column)]
        .into_iter()
        .flatten()
    {
        let _ = write!(text, ":{number}");
    }
    Some(text)
}

/// Where the race is, for the last line: where in the user's own code each side is, once where both are at the same place.
#[must_use]
pub fn summary_places(race: &Race) -> String {
    let [stalled, racing] = race.accesses.each_ref().map(summary_place);
    if stalled == racing {
        stalled
    } else {
        format!("{stalled} / {racing}")
    }
}

pub(super) fn summary_place(access: &Access) -> String {
    let Some(site) = own_place(access) else {
        return format!("({})", access.pc);
    };
    let place = source_place(site).unwrap_or_else(|| match &site.module {
        Some(module) => format!("({}+{})", clean(module), site.offset),
        None => format!("({})", site.pc),
    });
    match &site.function {
        Some(function) => format!("{place} in {}", clean(function)),
        None => place,
    }
}

/// Addresses of memory are padded to twelve digits, as ThreadSanitizer does.
pub(super) fn padded(address: Hex) -> String {
    format!("{:#014x}", address.0)
}

pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|c| c.to_ascii_uppercase())
        .into_iter()
        .chain(chars)
        .collect()
}

/// The time of day of a time by RFC 3339, without its date and what is less than a millisecond: `03:04:05.000`.
pub(super) fn bare_clock(time: &str) -> Option<&str> {
    const LENGTH: usize = "03:04:05.000".len();
    let (_, clock) = time.split_once('T')?;
    let clock = clock.get(..LENGTH)?;
    let is_one = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.');
    clock.chars().all(is_one).then_some(clock)
}

/// The name of a file, without its folder.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(path)
}

/// A race in one sentence.
#[must_use]
pub fn sentence(race: &Race) -> String {
    let side = |access: &Access| {
        let name = clean(&access.thread_name);
        let mut text = format!("{} by thread '{name}' (tid={})", what(access), access.tid);
        if let Some(function) = own_place(access).and_then(|frame| frame.function.as_deref()) {
            let _ = write!(text, " in {}", clean(function));
        }
        text
    };
    let location = match (race.location.kind, &race.location.name) {
        (LocationKind::Global, Some(name)) => {
            let member = race.location.member.as_deref().unwrap_or_default();
            format!(" on '{}{}'", clean(name), clean(member))
        }
        _ => String::new(),
    };
    let [stalled, racing] = &race.accesses;
    format!(
        "Data race{location}: {}, concurrent {}",
        side(stalled),
        side(racing)
    )
}

/// The variable at which a race is, with its size and where it begins.
pub(super) fn global(race: &Race) -> String {
    let Location {
        name,
        offset,
        size,
        module,
        module_offset,
        ..
    } = &race.location;
    let name = name.as_deref().map_or("".into(), clean);
    let back = offset.unwrap_or_default().wrapping_neg();
    let start = padded(Hex(race.address.0.wrapping_add_signed(back)));
    let size = size.unwrap_or_default();
    let mut text = format!("global '{name}' of size {size} at {start}");
    if let (Some(module), Some(at)) = (module, module_offset) {
        let _ = write!(text, " ({}+{at})", clean(file_name(module)));
    }
    text
}

/// The functions of both sides, once where both are in the same one; places in the code of those without a name.
#[must_use]
pub fn functions_of(race: &Race) -> String {
    let side = |access: &Access| match own_place(access) {
        Some(frame) => match &frame.function {
            Some(function) => clean(&names::function(function)).into_owned(),
            None => {
                let module = frame.module.as_deref().unwrap_or_default();
                format!("{}+{}", clean(file_name(module)), frame.offset)
            }
        },
        None => format!("({})", access.pc),
    };
    let mut sides = race.accesses.each_ref().map(side);
    sides.sort();
    match sides {
        [first, second] if first == second => first,
        [first, second] => format!("{first} / {second}"),
    }
}

/// The variable and the way to its member; empty where it is none.
#[must_use]
pub fn variable_of(race: &Race) -> String {
    match (race.location.kind, &race.location.name) {
        (LocationKind::Global, Some(name)) => {
            let member = race.location.member.as_deref().unwrap_or_default();
            format!("{}{}", clean(&names::variable(name)), clean(member))
        }
        _ => String::new(),
    }
}

/// What a reader finds code by: function and line of the innermost frame of his own code, or of the innermost one; nothing where neither is known.
#[must_use]
pub fn place_of(frames: Vec<Frame>) -> Option<String> {
    let frames: Vec<StackFrame> = frames.into_iter().map(StackFrame::from).collect();
    let mut named = frames.iter().filter(|frame| frame.function.is_some());
    let frame = named.find(|frame| is_own(frame)).or(frames.first())?;
    let function = frame
        .function
        .as_deref()
        .map(|name| clean(name).into_owned());
    let words: Vec<String> = function.into_iter().chain(source_place(frame)).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Who has created a thread, and where.
pub(super) fn creator(creation: &ThreadCreation) -> String {
    let name = clean(&creation.thread_name);
    let mut text = format!("thread '{name}' (tid={})", creation.tid);
    if let Some(place) = creation_place(creation) {
        let _ = write!(text, " in {place}");
    }
    text
}

/// The function in which a thread was created, and where that is.
pub(super) fn creation_place(creation: &ThreadCreation) -> Option<String> {
    let ThreadCreation {
        function,
        file,
        line,
        ..
    } = creation;
    function.clone().map(|function| {
        routine(&ThreadStart {
            function,
            file: file.clone(),
            line: *line,
        })
    })
}

/// What a thread runs, and where that is.
pub(super) fn routine(start: &ThreadStart) -> String {
    let ThreadStart {
        function,
        file,
        line,
    } = start;
    let mut text = clean(function).into_owned();
    if let Some(file) = file {
        let _ = write!(text, " {}", clean(file));
        if let Some(line) = line {
            let _ = write!(text, ":{line}");
        }
    }
    text
}

/// What is at the address of a race, and what it is called.
pub(super) fn location(race: &Race) -> String {
    let mut text = memory(race);
    let Location {
        variable,
        function,
        object,
        ..
    } = &race.location;
    if let Some(variable) = variable {
        let _ = write!(text, ", variable '{}'", clean(variable));
        if let Some(function) = function {
            let _ = write!(text, " of {}", clean(function));
        }
    }
    if let Some(Object { name, member }) = object {
        let _ = write!(text, ", by a pointer to {}", clean(name));
        if !member.is_empty() {
            let _ = write!(text, ": {}", clean(member));
        }
    }
    text
}

/// What memory is at the address of a race.
fn memory(race: &Race) -> String {
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
            let mut text = global(race);
            if offset != 0 {
                let _ = write!(text, ", {offset} bytes into it");
            }
            if let Some(member) = member.as_deref().filter(|member| !member.is_empty()) {
                let variable = names::variable(&name);
                let _ = write!(text, ": {variable}{}", clean(member));
            }
            text
        }
        LocationKind::HeapBlock => {
            let start = padded(Hex(race.address.0.wrapping_sub(offset.cast_unsigned())));
            format!("heap block of size {size} at {start}, {offset} bytes into it")
        }
        LocationKind::Heap => {
            format!("heap memory at {address}, {offset} bytes into [heap]")
        }
        LocationKind::Stack => {
            let tid = tid.unwrap_or(race.pid);
            if name.is_empty() {
                format!("stack of main thread (tid={tid}) at {address}")
            } else {
                format!("stack of thread '{name}' (tid={tid}) at {address}")
            }
        }
        LocationKind::Mapping => {
            format!("mapping '{name}' at {address}, offset {offset:#x}")
        }
        LocationKind::Anonymous => format!(
            "anonymous memory at {address} (allocator or mmap), {offset} bytes into a mapping of size {size}"
        ),
        LocationKind::Unknown => format!("unknown memory at {address}"),
    }
}

/// How many bytes were watched, and what they held, as far as that is known.
pub(super) fn value(race: &Race) -> Option<String> {
    let watched = format!(
        "{} bytes at {}",
        race.watch_size,
        padded(race.watch_address)
    );
    match (&race.value_before, &race.value_after) {
        (Some(before), Some(after)) => Some(format!("{watched}: {before} before, {after} after")),
        (Some(before), None) => Some(format!("{watched}: {before} before")),
        (None, Some(after)) => Some(format!("{watched}: {after} after")),
        (None, None) => None,
    }
}

/// Which kinds of accesses met, and that they did.
pub(super) const fn verdict(class: RaceClass) -> &'static str {
    match class {
        RaceClass::PlainPlain => {
            "plain-plain: neither access is atomic; both were under way at the same time"
        }
        RaceClass::PlainAtomic => {
            "plain-atomic: one access is atomic, the other is not; both were under way at the same time"
        }
    }
}

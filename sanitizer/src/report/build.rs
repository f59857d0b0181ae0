//! Turns the facts of a finding into a race: stacks unwound, functions, lines and memory
//! named.

use std::time::{Duration, UNIX_EPOCH};

use super::finding::{Finding, LiveFact, MapInfo, SideFacts};
use super::fingerprint::{Place, fingerprint, variable};
use super::hex::{Hex, digits, little_endian};
use super::identity::identity;
use super::location;
use super::locks::locks_of;
use super::model::{Access, CodeBlock, Identity, LiveValue, Race, Role, SCHEMA, StackFrame};
use super::thread_creation::thread_creation;
use super::thread_start::thread_start;
use crate::insn::AccessKind;
use crate::symbols::{Frame, Lack, Span, Stack, StackSnapshot, Symbolizer};

/// Resolves a finding. `maps` are the process's mappings at about that time.
#[must_use]
pub fn build_race(symbolizer: &mut Symbolizer, finding: &Finding, maps: &[MapInfo]) -> Race {
    let (stalled, stalled_spans) = access(symbolizer, finding, &finding.stalled, Role::Stalled);
    let (racing, racing_spans) = access(symbolizer, finding, &finding.racing, Role::Racing);
    let spans = [&stalled_spans[..], &racing_spans[..]];
    let (address, size) = overlap(finding);
    let variables = [&stalled, &racing].map(|access| variable(symbolizer, access));
    let [first, second] =
        [(&stalled, &variables[0]), (&racing, &variables[1])].map(|(access, variable)| Place {
            access,
            variable: variable.as_deref(),
        });
    let fingerprint = fingerprint(first, second);
    let exe_build_id = symbolizer.build_id_of(&finding.exe);
    let mut race = Race {
        schema: SCHEMA,
        fingerprint,
        identity: Identity::default(),
        known: false,
        verdict: finding.class,
        pid: finding.pid,
        exe: finding.exe.clone(),
        build_id: (!exe_build_id.is_empty()).then(|| digits(exe_build_id)),
        time: humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(finding.time_ns))
            .to_string(),
        address: Hex(address),
        size,
        location: location::classify(symbolizer, finding, spans, maps, (address, size)),
        watch_address: Hex(finding.watch_address),
        watch_size: finding.watch_len,
        value_before: value(&finding.value_before),
        value_after: value(&finding.value_after),
        notes: notes(symbolizer, finding, [&stalled, &racing]),
        accesses: [stalled, racing],
    };
    race.identity = identity(&race);
    race
}

fn value(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| little_endian(bytes))
}

/// The bytes that both sides access; the watched ones where they are not known to meet.
fn overlap(finding: &Finding) -> (u64, u32) {
    let end = |side: &SideFacts| side.address.saturating_add(side.size.into());
    let start = finding.stalled.address.max(finding.racing.address);
    let size = end(&finding.stalled)
        .min(end(&finding.racing))
        .saturating_sub(start);
    match u32::try_from(size) {
        Ok(size) if size > 0 => (start, size),
        _ => (finding.watch_address, finding.watch_len),
    }
}

/// How many of the outermost frames are what the C library begins a thread or a program with: their lines
/// would tell nobody anything, and reading its debug information takes most of a report's time.
pub(super) fn beginnings(symbolizer: &Symbolizer, exe: &str, pcs: &[u64]) -> usize {
    let path = |pc| symbolizer.module_at(pc).map(|module| module.path.as_str());
    let own = [pcs.first().and_then(|&pc| path(pc)), Some(exe)];
    // The access itself is none, wherever it is.
    let outer = pcs.get(1..).unwrap_or_default();
    let begins = |&pc: &u64| {
        !own.contains(&path(pc))
            || symbolizer.frame_by_symbol(pc).function.as_deref() == Some("_start")
    };
    outer.iter().rev().take_while(|pc| begins(pc)).count()
}

/// The stack of a side, and how many of its frames stand above what the C library begins a thread with.
fn unwound(symbolizer: &Symbolizer, exe: &str, side: &SideFacts) -> (Stack, usize) {
    let snapshot = StackSnapshot {
        base: side.stack_base,
        bytes: side.stack.clone(),
    };
    let stack = symbolizer.unwind_access(side.pc, &side.regs, &snapshot);
    let inner = stack.pcs.len() - beginnings(symbolizer, exe, &stack.pcs);
    (stack, inner)
}

/// The run-time addresses of both stacks at which lines are wanted.
#[must_use]
pub fn places(symbolizer: &Symbolizer, finding: &Finding) -> Vec<u64> {
    let sides = [&finding.stalled, &finding.racing];
    let pcs = sides.into_iter().flat_map(|side| {
        let (stack, inner) = unwound(symbolizer, &finding.exe, side);
        stack.pcs.into_iter().take(inner)
    });
    pcs.collect()
}

/// One side, and where its frames are on the stack.
fn access(
    symbolizer: &Symbolizer,
    finding: &Finding,
    side: &SideFacts,
    role: Role,
) -> (Access, Vec<Span>) {
    let (stack, inner) = unwound(symbolizer, &finding.exe, side);
    let (inner, outer) = stack.pcs.split_at(inner);
    let inner = inner.iter().flat_map(|&pc| symbolizer.frames(pc));
    let outer = outer.iter().map(|&pc| symbolizer.frame_by_symbol(pc));
    let mut frames: Vec<StackFrame> = inner.chain(outer).map(StackFrame::from).collect();
    if let (Some(frame), Some(routine)) = (frames.first_mut(), &side.routine)
        && !frame.is_memory_routine()
    {
        frame.function = Some(routine.clone());
    }
    let library_frames = match (&side.system_call, side.returns_to) {
        // An address within the call is looked up for callers.
        (Some(_), Some(behind)) => frames
            .iter()
            .position(|frame| frame.pc.0 == behind || frame.pc.0 == behind.wrapping_sub(1))
            .unwrap_or(0),
        _ => 0,
    };
    let innermost = frames.first();
    let access = Access {
        role,
        kind: side.kind,
        atomic: side.atomic,
        size: side.size,
        address: Hex(side.address),
        system_call: side.system_call.clone(),
        library_frames,
        block: side.block.map(|block| CodeBlock {
            number: block.number,
            address: Hex(block.address),
            size: block.size,
        }),
        live_values: side.live.iter().map(LiveValue::from).collect(),
        holds: locks_of(symbolizer, finding, side),
        pc: Hex(side.pc),
        tid: side.tid,
        thread_name: side.thread_name.clone(),
        thread_start: thread_start(&frames, stack.truncated),
        created_by: (side.creator.as_ref()).map(|creator| thread_creation(symbolizer, creator)),
        module: innermost.and_then(|frame| frame.module.clone()),
        offset: innermost.map_or(Hex(0), |frame| frame.offset),
        introduced_read: side.introduced_read && !symbolizer.is_strict(side.pc),
        stack_truncated: stack.truncated,
        stack: frames,
    };
    (access, stack.spans)
}

impl From<&LiveFact> for LiveValue {
    fn from(fact: &LiveFact) -> Self {
        Self {
            record: fact.record,
            place: fact.place.clone(),
            size: fact.size,
            value: fact.value.map(Hex),
        }
    }
}

impl From<Frame> for StackFrame {
    fn from(frame: Frame) -> Self {
        Self {
            pc: Hex(frame.pc),
            module: frame.module,
            offset: Hex(frame.offset),
            build_id: (!frame.build_id.is_empty()).then(|| digits(&frame.build_id)),
            function: frame.function,
            function_line: frame.declared,
            file: frame.file,
            line: frame.line,
            column: frame.column,
            inlined: frame.inlined,
            source: None,
        }
    }
}

/// Why functions and lines are missing in the stacks, once for each module.
fn missing_lines(symbolizer: &Symbolizer, sides: [&Access; 2]) -> Vec<String> {
    let frames = sides.into_iter().flat_map(|side| &side.stack);
    let mut lacks: Vec<_> = (frames.filter_map(|frame| symbolizer.lack(frame.pc.0))).collect();
    lacks.sort();
    lacks.dedup();
    let note = |(module, lack)| {
        let why = match lack {
            Lack::Excess(reason) => format!("its debug information is over a limit ({reason})"),
            Lack::Unread(reason) => reason,
        };
        format!("of {module} there are addresses only, where lines are missing: {why}.")
    };
    lacks.into_iter().map(note).collect()
}

fn notes(symbolizer: &Symbolizer, finding: &Finding, sides: [&Access; 2]) -> Vec<String> {
    let mut notes = missing_lines(symbolizer, sides);
    for side in sides {
        let role = side.role.name();
        if side.introduced_read {
            notes.push(format!(
                "the {role} read may be compiler-introduced: the source need not read here. \
                 Build with the strict flags of the documentation to rule that out."
            ));
        }
        if side.stack_truncated {
            notes.push(format!(
                "the {role} stack is truncated: it goes on beyond its last frame."
            ));
        }
        if let Some(call) = &side.system_call {
            notes.push(format!(
                "the {role} access is made by the kernel in the system call {call}(2), to whose buffer address and \
                 size belong."
            ));
        } else if side.in_memory_routine() {
            notes.push(format!(
                "the {role} access is made by a memory routine for its caller."
            ));
        }
    }
    let racing_writes = finding.racing.kind != AccessKind::Read;
    if racing_writes && finding.value_before.is_empty() {
        notes.push("the value could not be read.".to_owned());
    } else if racing_writes && finding.value_before == finding.value_after {
        notes.push("the racing write left the watched bytes as they were.".to_owned());
    } else if !racing_writes && finding.value_before != finding.value_after {
        notes.push(
            "the racing access only reads; the watched bytes changed as well while the \
             stalled thread was held, by another access."
                .to_owned(),
        );
    }
    notes
}

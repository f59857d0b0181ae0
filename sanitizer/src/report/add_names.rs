//! Names for stacks that were reported without: of stripped programs, on a machine without their debug files. All that is looked up is what the
//! report has: build id and offset.

use std::collections::BTreeSet;

use super::build::beginnings;
use super::identity::identity;
use super::location::global;
use super::model::{Access, LocationKind, Race, StackFrame};
use super::thread_start::thread_start;
use crate::symbols::Symbolizer;

/// A module in which frames have no names, or no lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamelessModule {
    /// Its path where it was mapped.
    pub path: String,
    /// Its GNU build id in hexadecimal.
    pub build_id: String,
    /// What was added to addresses of the file.
    pub bias: u64,
}

/// Whether anything is to be learned of a frame that is, or is not, what the C library begins a thread with.
fn is_nameless(frame: &StackFrame, begins: bool) -> bool {
    let is_named = frame.function.is_some() && (begins || frame.line.is_some());
    !is_named && frame.build_id.is_some() && frame.module.is_some()
}

/// Where nothing is known of the files.
fn beginnings_by_name(access: &Access, exe: &str) -> usize {
    let path = |frame: &StackFrame| frame.module.clone();
    let own = [access.stack.first().and_then(path), Some(exe.to_owned())];
    let outermost = access.stack.last().map(|frame| frame.pc);
    let outer = access.stack.get(1..).unwrap_or_default();
    let begins = |frame: &&StackFrame| {
        // What has no name at the end of a stack can be nothing else.
        let may_be_start = frame.function.is_none() && Some(frame.pc) == outermost;
        !own.contains(&path(frame)) || may_be_start || frame.function.as_deref() == Some("_start")
    };
    outer.iter().rev().take_while(begins).count()
}

/// The modules whose files a symbolizer needs for [`add_names`].
#[must_use]
pub fn nameless_modules(race: &Race) -> BTreeSet<NamelessModule> {
    let mut modules = BTreeSet::new();
    for access in &race.accesses {
        let inner = access.stack.len() - beginnings_by_name(access, &race.exe);
        for (number, frame) in access.stack.iter().enumerate() {
            if let (Some(path), Some(build_id)) = (&frame.module, &frame.build_id)
                && is_nameless(frame, number >= inner)
            {
                modules.insert(NamelessModule {
                    path: path.clone(),
                    build_id: build_id.clone(),
                    bias: frame.pc.0.wrapping_sub(frame.offset.0),
                });
            }
        }
    }
    modules
}

/// Gives names to frames that have none, as a symbolizer knows them whose modules are those of the race, and makes the names of the race anew that
/// depend on them. How many frames have got some.
pub fn add_names(race: &mut Race, symbolizer: &Symbolizer) -> usize {
    let exe = race.exe.clone();
    let named = race.accesses.iter_mut();
    let named = named
        .map(|access| add_to_side(access, &exe, symbolizer))
        .sum();
    if named > 0 {
        if race.location.kind != LocationKind::Global {
            let pcs = race.accesses.each_ref().map(|access| access.pc.0);
            let found = global(symbolizer, pcs, (race.address.0, race.size));
            race.location = found.unwrap_or_else(|| race.location.clone());
        }
        race.identity = identity(race);
    }
    named
}

fn add_to_side(access: &mut Access, exe: &str, symbolizer: &Symbolizer) -> usize {
    // What was inlined is at the same address as that into which it was.
    let places: Vec<&[StackFrame]> = access
        .stack
        .split_inclusive(|frame| !frame.inlined)
        .collect();
    let pcs = places.iter().filter_map(|frames| frames.first());
    let pcs: Vec<u64> = pcs.map(|frame| frame.pc.0).collect();
    let inner = pcs.len() - beginnings(symbolizer, exe, &pcs);
    let (mut stack, mut named) = (Vec::new(), 0);
    let (mut before, mut library_frames) = (0, 0);
    for (number, frames) in places.iter().enumerate() {
        let found = match frames {
            [frame] => better(frame, symbolizer, number >= inner, number == 0),
            _ => None,
        };
        named += usize::from(found.is_some());
        let found = found.unwrap_or_else(|| frames.to_vec());
        if before < access.library_frames {
            library_frames += found.len();
        }
        before += frames.len();
        stack.extend(found);
    }
    if named > 0 {
        access.thread_start = thread_start(&stack, access.stack_truncated);
        access.library_frames = library_frames;
        access.stack = stack;
    }
    named
}

/// The frames at the place of one, where more is known than it tells.
fn better(
    frame: &StackFrame,
    symbolizer: &Symbolizer,
    begins: bool,
    is_innermost: bool,
) -> Option<Vec<StackFrame>> {
    if !is_nameless(frame, begins) {
        return None;
    }
    let found = match begins {
        true => vec![symbolizer.frame_by_symbol(frame.pc.0)],
        false => symbolizer.frames(frame.pc.0),
    };
    let mut found: Vec<StackFrame> = found.into_iter().map(StackFrame::from).collect();
    let is_same =
        |other: &StackFrame| (&other.build_id, other.offset) == (&frame.build_id, frame.offset);
    let outermost = found.last()?;
    let says_more =
        outermost.function.is_some() && (frame.function.is_none() || outermost.line.is_some());
    if !says_more || !found.iter().all(is_same) {
        return None;
    }
    if let Some(innermost) = found.first_mut()
        && is_innermost
        && frame.is_memory_routine()
        && !innermost.is_memory_routine()
    {
        // It was known by what it does.
        innermost.function.clone_from(&frame.function);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Check which modules are needed: those of frames without names or lines, but not for lines of what begins a thread.
    #[test]
    fn what_is_needed() {
        let mut race = sample::race();
        let [stalled, racing] = &mut race.accesses;
        for frame in &mut stalled.stack {
            frame.build_id = Some("11".to_owned());
        }
        let nameless = &mut racing.stack[0];
        (nameless.function, nameless.line) = (None, None);
        let frame = |module: &str, function: Option<&str>| StackFrame {
            module: Some(module.to_owned()),
            build_id: Some("22".to_owned()),
            function: function.map(str::to_owned),
            ..StackFrame::default()
        };
        racing.stack.extend([
            frame("/lib/libstdc++.so.6", None),
            frame("/opt/bin/app", Some("serve")),
            frame("/lib/libc.so.6", Some("start_thread")),
            frame("/lib/libc.so.6", Some("clone3")),
        ]);
        let needed = |race: &Race| {
            let modules = nameless_modules(race).into_iter();
            let named = modules.map(|module| format!("{} {}", module.path, module.build_id));
            named.collect::<Vec<_>>()
        };
        let expected = [
            "/lib/libstdc++.so.6 22",
            "/opt/bin/app 22",
            "/opt/bin/app aabbcc",
        ];
        assert_eq!(needed(&race), expected);
        race.accesses[1].stack[3].function = None;
        assert_eq!(needed(&race)[0], "/lib/libc.so.6 22");
        race.accesses[1].stack.truncate(1);
        race.accesses[1].stack[0].build_id = None;
        assert_eq!(needed(&race), [""; 0]);
    }
}

//! Says what memory an address is in: a variable, a thread's stack, the heap, a mapping.

use super::finding::{Finding, MapInfo, SideFacts};
use super::hex::Hex;
use super::model::{Location, LocationKind, Object};
use crate::insn::Regs;
use crate::symbols::{Named, Pointee, Span, StackSnapshot, Stopped, Symbolizer};

/// Code may use this much below the stack pointer (System V ABI for x86-64, 3.2.2).
const RED_ZONE: u64 = 128;

impl Location {
    const fn new(kind: LocationKind) -> Self {
        Self {
            kind,
            name: None,
            member: None,
            offset: None,
            size: None,
            module: None,
            module_offset: None,
            tid: None,
            variable: None,
            function: None,
            object: None,
        }
    }
}

/// What is at a run-time address of the finding's process, and in so many bytes there. `spans` are where the frames of the two sides are.
#[must_use]
pub fn classify(
    symbolizer: &Symbolizer,
    finding: &Finding,
    spans: [&[Span]; 2],
    maps: &[MapInfo],
    (address, size): (u64, u32),
) -> Location {
    let location = memory(symbolizer, finding, maps, (address, size));
    let sides = [&finding.stalled, &finding.racing];
    let mut sides = sides.into_iter().zip(spans);
    match location.kind {
        LocationKind::Global | LocationKind::Unknown => location,
        LocationKind::Stack => {
            let owner = sides.find(|(side, _)| Some(side.tid) == location.tid);
            let found =
                owner.and_then(|(side, spans)| on_stack(symbolizer, side, spans, (address, size)));
            let (variable, function) = found.unzip();
            Location {
                variable,
                function: function.flatten(),
                ..location
            }
        }
        _ => Location {
            object: sides.find_map(|(side, spans)| {
                let frame = spans.first().filter(|frame| frame.pc == side.regs.rip);
                let named = named(
                    symbolizer,
                    side,
                    side.pc,
                    &side.regs,
                    frame,
                    (address, size),
                );
                let Pointee { name, member } = named.pointee?;
                Some(Object { name, member })
            }),
            ..location
        },
    }
}

/// What a frame of a side calls some bytes.
fn named(
    symbolizer: &Symbolizer,
    side: &SideFacts,
    pc: u64,
    regs: &Regs,
    frame: Option<&Span>,
    bytes: (u64, u32),
) -> Named {
    let stack = StackSnapshot {
        base: side.stack_base,
        bytes: side.stack.clone(),
    };
    let stopped = Stopped {
        pc,
        regs,
        stack: &stack,
    };
    symbolizer.named_at(stopped, frame.map(|frame| frame.cfa), bytes)
}

/// The variable on the stack of a side that has some bytes, and the function that it is of.
fn on_stack(
    symbolizer: &Symbolizer,
    side: &SideFacts,
    spans: &[Span],
    bytes: (u64, u32),
) -> Option<(String, Option<String>)> {
    let frame = spans.iter().enumerate().find(|(number, frame)| {
        let begins = match number {
            0 => frame.regs.rsp.saturating_sub(RED_ZONE),
            _ => frame.regs.rsp,
        };
        (begins..frame.cfa).contains(&bytes.0)
    });
    let (_, frame) = frame?;
    let named = named(symbolizer, side, frame.pc, &frame.regs, Some(frame), bytes);
    // Where something was inlined it may be a variable of that.
    let mut functions = symbolizer.frames(frame.pc);
    let function = functions.pop().filter(|_| functions.is_empty());
    Some((named.variable?, function.and_then(|frame| frame.function)))
}

/// What is at a run-time address, whatever it is called.
fn memory(
    symbolizer: &Symbolizer,
    finding: &Finding,
    maps: &[MapInfo],
    (address, size): (u64, u32),
) -> Location {
    let pcs = [finding.stalled.pc, finding.racing.pc];
    if let Some(global) = global(symbolizer, pcs, (address, size)) {
        return global;
    }
    let map = maps.iter().find(|map| map.contains(address));
    if let Some(stack) = stack_of(finding, map, address) {
        return stack;
    }
    let Some(map) = map else {
        return Location::new(LocationKind::Unknown);
    };
    let is_for_blocks = map.name.is_empty() || map.name.starts_with('[');
    if let Some(block) = finding.heap_block.filter(|_| is_for_blocks) {
        return Location {
            offset: i64::try_from(address.wrapping_sub(block.address)).ok(),
            size: Some(block.size),
            ..Location::new(LocationKind::HeapBlock)
        };
    }
    let in_mapping = Location {
        name: (!map.name.is_empty()).then(|| map.name.clone()),
        offset: i64::try_from(address.wrapping_sub(map.start)).ok(),
        size: Some(map.end.wrapping_sub(map.start)),
        ..Location::new(LocationKind::Mapping)
    };
    match map.name.as_str() {
        "[heap]" => Location {
            kind: LocationKind::Heap,
            ..in_mapping
        },
        "" => Location {
            kind: LocationKind::Anonymous,
            ..in_mapping
        },
        // The file offset, which says more than the place in the mapping.
        name if name.starts_with('/') => Location {
            offset: i64::try_from(address.wrapping_sub(map.start).wrapping_add(map.offset)).ok(),
            ..in_mapping
        },
        _ => in_mapping,
    }
}

/// The variable with static storage at a run-time address, and what so many bytes there are of it as the code at these program counters knows it.
pub(super) fn global(
    symbolizer: &Symbolizer,
    pcs: [u64; 2],
    (address, size): (u64, u32),
) -> Option<Location> {
    let global = symbolizer.global_at(address)?;
    let member = |pc: u64| symbolizer.member_at(pc, (address, size));
    Some(Location {
        member: pcs.into_iter().find_map(member),
        name: Some(global.name),
        offset: i64::try_from(global.offset).ok(),
        size: Some(global.size),
        module: Some(global.module),
        module_offset: Some(Hex(global.module_offset)),
        ..Location::new(LocationKind::Global)
    })
}

fn stack_of(finding: &Finding, map: Option<&MapInfo>, address: u64) -> Option<Location> {
    let sides = [&finding.stalled, &finding.racing];
    if let Some(owner) = sides
        .into_iter()
        .find(|side| is_on_stack(side, map, address))
    {
        return Some(Location {
            name: Some(owner.thread_name.clone()),
            offset: Some(address.wrapping_sub(owner.regs.rsp).cast_signed()),
            tid: Some(owner.tid),
            ..Location::new(LocationKind::Stack)
        });
    }
    let map = map.filter(|map| map.name == "[stack]")?;
    // The main thread's stack, even where the thread itself is not known.
    Some(Location {
        offset: i64::try_from(address.wrapping_sub(map.start)).ok(),
        size: Some(map.end.wrapping_sub(map.start)),
        tid: Some(finding.pid),
        ..Location::new(LocationKind::Stack)
    })
}

/// Whether an address is on the stack of the thread of this side.
fn is_on_stack(side: &SideFacts, map: Option<&MapInfo>, address: u64) -> bool {
    let Some(map) = map.filter(|map| map.name != "[heap]" && !map.name.starts_with('/')) else {
        return false;
    };
    let (stack_pointer, thread_pointer) = (side.regs.rsp, side.regs.fs_base);
    if stack_pointer == 0 || !map.contains(stack_pointer) {
        return false;
    }
    // What is far below the stack pointer is not in use by a call of this thread, but is
    // still its stack. C libraries keep the thread's control block at the top of its stack;
    // what lies above that was merged into one mapping by chance.
    let below_thread_pointer = !map.contains(thread_pointer)
        || thread_pointer < stack_pointer
        || address <= thread_pointer;
    below_thread_pointer && address >= map.start.saturating_sub(RED_ZONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::finding::HeapBlock;
    use crate::report::sample::finding;

    fn map(start: u64, end: u64, name: &str) -> MapInfo {
        MapInfo {
            start,
            end,
            name: name.to_owned(),
            write: true,
            read: true,
            ..MapInfo::default()
        }
    }

    /// Check each kind of memory that needs no symbols.
    #[test]
    fn kinds() {
        let mut finding = finding();
        finding.stalled.regs.rsp = 0x7000_1000;
        finding.stalled.regs.fs_base = 0x7000_8000;
        finding.racing.regs.rsp = 0x7ffe_0500;
        finding.racing.regs.fs_base = 0;
        let maps = [
            map(0x5000, 0x9000, "[heap]"),
            MapInfo {
                offset: 0x3000,
                ..map(0x1_0000, 0x2_0000, "/lib/data")
            },
            map(0x3_0000, 0x4_0000, ""),
            map(0x5_0000, 0x6_0000, "[anon:arena]"),
            map(0x7000_0000, 0x7001_0000, ""),
            map(0x7ffe_0000, 0x7fff_0000, "[stack]"),
        ];
        let symbolizer = Symbolizer::new();
        // A block is told where blocks may be.
        let in_block = Finding {
            heap_block: Some(HeapBlock {
                address: 0x5000,
                size: 40,
            }),
            ..finding.clone()
        };
        let block = classify(&symbolizer, &in_block, [&[]; 2], &maps, (0x5010, 1));
        assert_eq!(block.kind, LocationKind::HeapBlock);
        assert_eq!((block.offset, block.size), (Some(0x10), Some(40)));
        let file = classify(&symbolizer, &in_block, [&[]; 2], &maps, (0x1_0004, 1));
        assert_eq!(file.kind, LocationKind::Mapping);
        let at = |address| classify(&symbolizer, &finding, [&[]; 2], &maps, (address, 1));
        assert_eq!(at(0x5010).kind, LocationKind::Heap);
        assert_eq!(at(0x5010).offset, Some(0x10));
        assert_eq!(at(0x1_0004).kind, LocationKind::Mapping);
        assert_eq!(at(0x1_0004).offset, Some(0x3004));
        assert_eq!(at(0x3_0004).kind, LocationKind::Anonymous);
        assert_eq!(at(0x5_0000).name.as_deref(), Some("[anon:arena]"));
        let stack = at(0x7000_1008);
        assert_eq!(
            (stack.kind, stack.tid),
            (LocationKind::Stack, Some(finding.stalled.tid))
        );
        assert_eq!(stack.offset, Some(8));
        // Above the thread's control block: not its stack.
        assert_eq!(at(0x7000_8008).kind, LocationKind::Anonymous);
        assert_eq!(at(0x7ffe_0400).tid, Some(finding.racing.tid));
        assert_eq!(at(0x1).kind, LocationKind::Unknown);
    }
}

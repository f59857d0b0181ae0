//! From a hit to a finding: which instructions made the two accesses, what the metadata says of
//! them, and the verdict. Runs after all threads have been let go.

use crate::{
    addr::LinkAddr,
    hunt::{
        attribution, heap_block, locks,
        modules::{ModuleSet, Place},
        routine_call::{self, RoutineCall},
        system_call::{self, Memory, SystemCall},
        watched::Watched,
    },
    insn::{AccessKind, Attributed, ByteUse, Destination, MemAccess, ReadUse, Regs, x86_64},
    kernel::gates::Hit,
    pcmeta::Atomicity,
    report::finding::{BlockFact, Finding, Holds, LiveFact, SideFacts},
    symbols::StackSnapshot,
    verdict::{self, Analyzed, Context, Policy, Verdict},
};

/// The stalled side, as the tracer saw it.
#[derive(Clone, Debug)]
pub struct StalledSide {
    /// The thread.
    pub tid: u32,
    /// Registers where it stood: at the access, or a few instructions before.
    pub regs: Regs,
    /// The call of the memory routine in which it stood, if it did in one.
    pub call: Option<RoutineCall>,
    /// What was watched.
    pub watched: Watched,
    /// Stack bytes from `regs.rsp` up.
    pub stack: Vec<u8>,
    /// The watched bytes when the stall began.
    pub before: Vec<u8>,
}

/// What is not in the two sides but in a finding.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The process.
    pub pid: u32,
    /// Its executable.
    pub exe: String,
    /// Name of the stalled thread.
    pub stalled_name: String,
    /// Real time less CLOCK_MONOTONIC, ns.
    pub clock_offset_ns: u64,
    /// The stalled thread was seen past its access.
    pub completed: bool,
    /// When the stall was open, CLOCK_MONOTONIC ns.
    pub open: std::ops::Range<u64>,
}

/// The reason for which what `strlen` and its kin load is no evidence: they may load more than they
/// were asked to look at.
pub const BEYOND: &str = "routine-may-read-beyond";
/// The reason for which nothing is believed that a file says of an access.
const CUT_SHORT: &str = "file-cut-short";

/// Judges one hit; the reason, where it is no race. `holds` is what is known of the locks of the stalled thread and of that of the hit, `memory` reads that of the process.
///
/// # Errors
/// The name of the reason.
pub fn classify(
    modules: &ModuleSet,
    stalled: &StalledSide,
    hit: &Hit,
    holds: [&Holds; 2],
    circumstances: &Circumstances,
    policy: &Policy,
    memory: &Memory<'_>,
) -> Result<Finding, &'static str> {
    let stalled_pc = stalled.watched.pc;
    // Both as those see it who reach it where it was watched.
    let access = MemAccess {
        address: stalled
            .watched
            .access
            .address
            .wrapping_add(stalled.watched.alias),
        ..stalled.watched.access
    };
    let mut first = side(modules, stalled_pc, &access, true, stalled.call.as_ref())?;

    let regs = hit.registers();
    let call = racing_call(modules, hit);
    let (len, address) = (u32::from(stalled.watched.len), stalled.watched.address.0);
    let watch = (address, len);
    let (mut second, system_call) = if hit.in_kernel {
        let made = system_call::of_hit(hit, watch, memory).ok_or("system-call-unattributed")?;
        (by_kernel(&made, call.is_some()), Some(made.name.to_owned()))
    } else {
        let Attributed {
            pc,
            access,
            address_exact: exact,
            ..
        } = attribution::of_access(modules, &regs, watch)?;
        if call
            .as_ref()
            .is_some_and(|call| call.may_be_beyond(access.kind))
        {
            return Err(BEYOND);
        }
        (side(modules, pc, &access, exact, call.as_ref())?, None)
    };

    let context = Context {
        watch,
        in_stall: circumstances.open.contains(&hit.time_ns),
        completed: circumstances.completed,
        same_thread: hit.tid == stalled.tid,
    };
    // Following bytes takes long.
    if let Some(reason) = verdict::refuted(&first, &second, &context, policy) {
        return Err(reason.name());
    }
    follow_bytes(modules, &mut first, &second);
    follow_bytes(modules, &mut second, &first);
    let race = match verdict::judge(&first, &second, &context, policy) {
        Verdict::Race(race) => race,
        Verdict::NotReported(reason) => return Err(reason.name()),
    };
    // Asked last: all that was read for it is behind us.
    let is_cut = |pc| modules.place(pc).is_some_and(|place| place.is_cut());
    if is_cut(stalled_pc) || is_cut(second.pc) {
        return Err(CUT_SHORT);
    }
    let [stalled_holds, racing_holds] = locks::of_one(holds);
    let comm: Vec<u8> = hit
        .comm
        .iter()
        .copied()
        .take_while(|&byte| byte != 0)
        .collect();
    Ok(Finding {
        pid: circumstances.pid,
        exe: circumstances.exe.clone(),
        time_ns: hit.time_ns.wrapping_add(circumstances.clock_offset_ns),
        watch_address: address,
        watch_len: len,
        class: race.class,
        stalled: SideFacts {
            tid: stalled.tid,
            thread_name: circumstances.stalled_name.clone(),
            pc: stalled_pc,
            routine: stalled.call.as_ref().map(|call| call.name.clone()),
            system_call: None,
            returns_to: None,
            regs: Regs {
                rip: stalled_pc,
                ..stalled.regs
            },
            stack_base: stalled.regs.rsp,
            stack: stalled.stack.clone(),
            kind: first.kind,
            atomic: first.atomicity == Atomicity::Atomic,
            address: stalled.watched.access.address,
            size: first.size,
            introduced_read: race.introduced_read[0],
            doubtful: race.doubtful[0],
            copied_to: race.doubtful[0]
                .and_then(|bytes| copied_to(modules, stalled_pc, &bytes, &stalled.regs)),
            may_be_merged: may_be_merged(modules, &first),
            mark_may_be_lost: mark_may_be_lost(&first),
            block: block(modules, stalled_pc),
            // In between, values may have moved.
            live: if stalled.regs.rip == stalled_pc {
                live(modules, &stalled.regs, &stalled.stack)
            } else {
                Vec::new()
            },
            holds: stalled_holds,
            creator: None,
        },
        racing: SideFacts {
            tid: hit.tid,
            thread_name: String::from_utf8_lossy(&comm).into_owned(),
            pc: second.pc,
            returns_to: call.as_ref().map(|call| call.return_address),
            routine: call.filter(|_| !hit.in_kernel).map(|call| call.name),
            system_call,
            regs,
            stack_base: regs.rsp,
            stack: hit.stack.clone(),
            kind: second.kind,
            atomic: second.atomicity == Atomicity::Atomic,
            address: second.address,
            size: second.size,
            introduced_read: race.introduced_read[1],
            doubtful: race.doubtful[1],
            copied_to: race.doubtful[1]
                .and_then(|bytes| copied_to(modules, second.pc, &bytes, &regs)),
            may_be_merged: may_be_merged(modules, &second),
            mark_may_be_lost: mark_may_be_lost(&second),
            block: block(modules, second.pc),
            live: live(modules, &regs, &hit.stack),
            holds: racing_holds,
            creator: None,
        },
        value_before: stalled.before.clone(),
        value_after: hit
            .value
            .to_le_bytes()
            .into_iter()
            .take(len as usize)
            .collect(),
        heap_block: heap_block::of_accesses(modules, [&first, &second], memory),
    })
}

fn block(modules: &ModuleSet, pc: u64) -> Option<BlockFact> {
    let place = modules.place(pc)?;
    let block = place.code_tables().block_at(place.link)?;
    Some(BlockFact {
        number: block.id,
        address: block.start.0.wrapping_add(place.module.module.bias),
        size: u32::try_from(block.end.0.checked_sub(block.start.0)?).ok()?,
    })
}

fn live(modules: &ModuleSet, regs: &Regs, stack: &[u8]) -> Vec<LiveFact> {
    let live = || {
        let place = modules.place(regs.rip)?;
        Some(place.code_tables().live_at(place.link, regs, stack))
    };
    live().unwrap_or_default()
}

/// What the kernel does in a system call is a plain access of the caller's.
const fn by_kernel(made: &SystemCall, caller_analyzed: bool) -> verdict::Access {
    verdict::Access {
        pc: made.pc,
        address: made.access.address,
        size: made.access.size,
        kind: made.access.kind,
        atomicity: Atomicity::Plain,
        analyzed: Analyzed::ForCaller { caller_analyzed },
        read_use: ReadUse::Proven,
        bytes: ByteUse::UNKNOWN,
        address_exact: true,
    }
}

fn side(
    modules: &ModuleSet,
    pc: u64,
    access: &MemAccess,
    exact: bool,
    call: Option<&RoutineCall>,
) -> Result<verdict::Access, &'static str> {
    let place = modules.place(pc).ok_or("unknown-module")?;
    let analyzed = match place.function() {
        Some(function) if function.is_analyzed() => Analyzed::Yes,
        _ if place.is_mem_routine() || call.is_some() => Analyzed::ForCaller {
            caller_analyzed: call.is_some(),
        },
        _ => Analyzed::No,
    };
    Ok(verdict::Access {
        pc,
        address: access.address,
        size: access.size,
        kind: access.kind,
        atomicity: atomicity(&place, access),
        analyzed,
        read_use: if access.kind == AccessKind::Read {
            read_use(modules, pc)
        } else {
            ReadUse::Proven
        },
        bytes: ByteUse::UNKNOWN,
        address_exact: exact,
    })
}

fn atomicity(place: &Place<'_>, access: &MemAccess) -> Atomicity {
    if access.locked {
        // The hardware makes it atomic; the table may have lost its mark.
        return Atomicity::Atomic;
    }
    place
        .module
        .metadata
        .as_ref()
        .map_or(Atomicity::Plain, |metadata| {
            metadata.atomicity(place.link, access.size.into(), access.kind)
        })
}

/// Finds out which bytes a load uses, where the other access does not touch all of them.
fn follow_bytes(modules: &ModuleSet, read: &mut verdict::Access, other: &verdict::Access) {
    let covered = read.address_exact
        && other.address_exact
        && other.address <= read.address
        && read.address.saturating_add(read.size.into())
            <= other.address.saturating_add(other.size.into());
    let is_plain_load = read.kind == AccessKind::Read && read.analyzed == Analyzed::Yes;
    if covered || !is_plain_load || read.atomicity == Atomicity::Atomic {
        return;
    }
    let Some((start, code)) = modules.function_code(read.pc) else {
        return;
    };
    let Some(place) = modules.place(read.pc) else {
        return;
    };
    let module = &place.module.module;
    read.bytes = place.module.byte_uses.of(place.link, || {
        let read_only = |address: u64, len: usize| {
            let link = LinkAddr(address.wrapping_sub(module.bias));
            let is_written = module.image.segments().iter().any(|segment| {
                let within = link.0.wrapping_sub(segment.address.0);
                segment.is_writable && within < segment.memory_size
            });
            let bytes = (!is_written).then(|| module.image.bytes_at(link, len))?;
            bytes.map(<[u8]>::to_vec)
        };
        let may_land = place.frames().may_land(place.link);
        x86_64::byte_use(start, code, read.pc, &read_only, may_land)
    });
}

/// Where a thread puts what it copies, if it stood right before or right behind the load.
fn copied_to(modules: &ModuleSet, pc: u64, bytes: &ByteUse, regs: &Regs) -> Option<Destination> {
    let (start, code) = modules.function_code(pc)?;
    let offset = usize::try_from(pc.checked_sub(start)?).ok()?;
    let length = x86_64::length(code.get(offset..)?)?;
    let stands = [pc, pc.wrapping_add(length as u64)].contains(&regs.rip);
    stands
        .then(|| x86_64::copied_to(start, code, pc, bytes, regs))
        .flatten()
}

/// Whether a plain load or store may have been made of an atomic one and another.
fn may_be_merged(modules: &ModuleSet, access: &verdict::Access) -> bool {
    access.analyzed == Analyzed::Yes
        && access.atomicity == Atomicity::Plain
        && access.kind != AccessKind::ReadWrite
        && modules
            .function_code(access.pc)
            // What is too long to be gone through may have anything in it.
            .is_none_or(|(start, code)| {
                // A part of a function that was laid out elsewhere may be entered from anywhere.
                !modules.is_entry(start)
                    || x86_64::may_be_merged(start, code, access.pc, access.size)
            })
}

fn mark_may_be_lost(access: &verdict::Access) -> bool {
    access.analyzed == Analyzed::Yes && access.atomicity == Atomicity::Unknown
}

fn read_use(modules: &ModuleSet, pc: u64) -> ReadUse {
    modules
        .function_code(pc)
        .map_or(ReadUse::Unproven, |(start, code)| {
            x86_64::read_use(start, code, pc, &|target| modules.is_entry(target))
        })
}

/// The call of the memory routine, of the system call's function, or of one that writes what it returns into memory of its own, in
/// which a thread was that made a hit, if it was in one.
#[must_use]
pub fn racing_call(modules: &ModuleSet, hit: &Hit) -> Option<RoutineCall> {
    if hit.in_kernel {
        return system_call::caller(modules, hit);
    }
    let regs = hit.registers();
    let place = modules.place(regs.rip)?;
    if place.function().is_some() {
        return None;
    }
    let stack = StackSnapshot {
        base: regs.rsp,
        bytes: hit.stack.clone(),
    };
    let routine = place.is_mem_routine();
    let routine = routine.then(|| routine_call::of_routine(modules, &regs, &stack));
    routine
        .flatten()
        .or_else(|| routine_call::of_result(modules, &regs, &stack))
}

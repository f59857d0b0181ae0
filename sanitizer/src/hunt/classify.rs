//! From a hit to a finding: which instructions made the two accesses, what the metadata says of
//! them, and the verdict. Runs after all threads have been let go.

use crate::{
    hunt::{
        caller::{self, RoutineCall},
        modules::{ModuleSet, Place},
        stall::Watched,
        system_call::{self, Memory, SystemCall},
    },
    insn::{AccessKind, MemAccess, ReadUse, Regs, x86_64},
    kernel::gates::Hit,
    pcmeta::Atomicity,
    report::finding::{BlockFact, Finding, LiveFact, SideFacts},
    symbols::StackSnapshot,
    verdict::{self, Analyzed, Context, Policy, Reason, Verdict},
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

/// Judges one hit; the reason, where it is no race. `memory` reads that of the process.
///
/// # Errors
/// The name of the reason.
pub fn classify(
    modules: &ModuleSet,
    stalled: &StalledSide,
    hit: &Hit,
    circumstances: &Circumstances,
    policy: &Policy,
    memory: &Memory<'_>,
) -> Result<Finding, &'static str> {
    let stalled_pc = stalled.watched.pc;
    let first = side(
        modules,
        stalled_pc,
        &stalled.watched.access,
        true,
        stalled.call.as_ref(),
    )?;

    let regs = hit.registers();
    let call = racing_call(modules, hit);
    let (len, address) = (u32::from(stalled.watched.len), stalled.watched.address.0);
    let watch = (address, len);
    let (second, system_call) = if hit.in_kernel {
        let made = system_call::of_hit(hit, watch, memory).ok_or("system-call-unattributed")?;
        (by_kernel(&made, call.is_some()), Some(made.name.to_owned()))
    } else {
        let (pc, access, exact) = racing_access(modules, &regs, watch)?;
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
    let race = match verdict::judge(&first, &second, &context, policy) {
        Verdict::Race(race) => race,
        Verdict::NotReported(reason) => return Err(reason.name()),
    };
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
            address: first.address,
            size: first.size,
            introduced_read: race.introduced_read[0],
            block: block(modules, stalled_pc),
            // In between, values may have moved.
            live: if stalled.regs.rip == stalled_pc {
                live(modules, &stalled.regs, &stalled.stack)
            } else {
                Vec::new()
            },
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
            block: block(modules, second.pc),
            live: live(modules, &regs, &hit.stack),
        },
        value_before: stalled.before.clone(),
        value_after: hit
            .value
            .to_le_bytes()
            .into_iter()
            .take(len as usize)
            .collect(),
        threads: Vec::new(),
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
    modules.place(regs.rip).map_or_else(Vec::new, |place| {
        place.code_tables().live_at(place.link, regs, stack)
    })
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
        address_exact: true,
    }
}

/// The instruction that made the access which trapped: in a covered function by decoding from
/// the start of its block, or its own. (One byte back from the trap's program counter is still in the function.)
fn racing_access(
    modules: &ModuleSet,
    regs: &Regs,
    watch: (u64, u32),
) -> Result<(u64, MemAccess, bool), &'static str> {
    let (start, code) = modules
        .code_from_block(regs.rip.wrapping_sub(1))
        .ok_or("racing-side-unanalyzed")?;
    let attributed =
        x86_64::attribute(start, code, regs, watch).map_err(|cause| Reason::from(cause).name())?;
    Ok((attributed.pc, attributed.access, attributed.address_exact))
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
        _ if place.is_mem_routine() => Analyzed::ForCaller {
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

fn read_use(modules: &ModuleSet, pc: u64) -> ReadUse {
    modules
        .function_code(pc)
        .map_or(ReadUse::Unproven, |(start, code)| {
            x86_64::read_use(start, code, pc)
        })
}

/// The call of the memory routine, or of the system call's function, in which a thread was that made a hit,
/// if it was in one.
#[must_use]
pub fn racing_call(modules: &ModuleSet, hit: &Hit) -> Option<RoutineCall> {
    if hit.in_kernel {
        return system_call::caller(modules, hit);
    }
    let regs = hit.registers();
    if !modules.place(regs.rip)?.is_mem_routine() {
        return None;
    }
    let stack = StackSnapshot {
        base: regs.rsp,
        bytes: hit.stack.clone(),
    };
    caller::of_routine(modules, &regs, &stack)
}

//! The scheduler's switches: who of the watched process is off its processor in the midst of user code, and since when.

use aya_ebpf::{EbpfContext as _, macros::raw_tracepoint, programs::RawTracePointContext};
use sanitizer_ebpf::{
    Control, Counter, EVENT_BACK, NOTE_NS, SIGNAL_PENDING, phase, place_of, stands_in_user_code,
};

use crate::{atomic, task::read_kernel};

use super::{
    block::{control, count, now, tell},
    current::{current_tgid, current_tid, is_watched, of_current},
    maps::PREEMPTED,
    registers::user_registers,
    stop::is_held,
};

/// `TIF_SIGPENDING` of `arch/x86/include/asm/thread_info.h`, as a bit.
const PENDING: u32 = 1 << 2;

/// `sched_switch`, of the thread that leaves a processor and the one that gets it; in the context of the former.
#[raw_tracepoint]
fn switched(ctx: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    let wanted = atomic::load(&control.preemption.wanted);
    if wanted == 0 {
        return 0;
    }
    // SAFETY: the arguments of `sched_switch` are (bool, struct task_struct *, struct task_struct *, unsigned int) since Linux 5.18, and
    // nowhere is it attached where there are fewer.
    let (leaves, comes, state) = unsafe {
        let args = ctx.as_ptr().cast::<u64>();
        (*args.add(1), *args.add(2), *args.add(3))
    };
    come(control, comes);
    if state as u32 == 0 && is_watched(control, current_tgid(control)) {
        leave(control, leaves, state, wanted);
    }
    0
}

/// A thread gets a processor.
#[inline(always)]
fn come(control: &Control, task: u64) {
    let Some(place) = PREEMPTED.get_ptr(place_of(task)) else {
        return;
    };
    // SAFETY: a map value lives as long as its map, and these fields are atomics.
    let (turn, owner) = unsafe { (&(*place).turn, &(*place).task) };
    if atomic::load(owner) != task {
        return;
    }
    // What was noted does not hold any more.
    if atomic::load(turn) & 1 != 0 {
        atomic::add(turn, 1);
    }
    atomic::store(owner, 0);
    // Only then: whoever has told of the thread before it was told here that it comes has seen that the note still held.
    if atomic::load(&control.preemption.task) == task {
        end_stall(control);
    }
}

/// The thread gets a processor whose bytes are watched: the stall is over before it can move (I7).
#[inline(always)]
fn end_stall(control: &Control) {
    if !atomic::replace(&control.preemption.back_ns, 0, now()) {
        return;
    }
    let word = atomic::load(&control.phase);
    let generation = phase::generation(word);
    if phase::of(word) == phase::STALL
        && atomic::load(&control.preemption.generation) == generation
        && atomic::replace(&control.phase, word, phase::word(generation, phase::CLOSED))
    {
        tell(EVENT_BACK, 0, 0, generation);
    }
}

/// The current thread of the watched process leaves its processor, though it could run on.
#[inline(always)]
fn leave(control: &Control, task: u64, state: u64, epoch: u64) {
    let Some(regs) = user_registers() else {
        return;
    };
    if !stands_in_user_code(state, &regs) || !is_held(control, task) {
        return;
    }
    let Some(place) = PREEMPTED.get_ptr_mut(place_of(task)) else {
        return;
    };
    // SAFETY: a map value lives as long as its map. The other fields are written by whoever has taken the place alone.
    unsafe {
        let (turn, owner) = (&(*place).turn, &(*place).task);
        let before = atomic::load(owner);
        if before != 0 && atomic::load(&(*place).epoch) == epoch
            || !atomic::replace(owner, before, task)
        {
            return;
        }
        // It may have been left open when nobody looked.
        if atomic::load(turn) & 1 != 0 {
            atomic::add(turn, 1);
        }
        atomic::store(&(*place).epoch, epoch);
        (*place).tid = u64::from(current_tid(control));
        (*place).out_ns = now();
        let flags = read_kernel::<u32>(task, control.offsets.task_flags).unwrap_or(PENDING);
        (*place).flags = if flags & PENDING == 0 {
            0
        } else {
            SIGNAL_PENDING
        };
        (*place).rseq = of_current(control.offsets.task_rseq);
        (*place).fs_base = of_current(control.offsets.task_fs_base);
        (*place).regs = regs;
        // Last: it says that the rest is there.
        atomic::add(turn, 1);
    }
    count(control, Counter::Preempted);
    atomic::add(&control.budget.spent_ns, NOTE_NS);
}

//! Threads of the watched process that are new, and programs that it executes.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_RB_NO_WAKEUP,
    helpers::{
        bpf_get_current_task,
        generated::{
            bpf_get_current_comm, bpf_ktime_get_boot_ns, bpf_probe_read_user as read_user,
        },
    },
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use sanitizer_ebpf::{
    CREATION_NS, CREATOR_PIECE, CREATOR_STACK, Counter, EVENT_EXEC, EVENT_THREAD,
    EVENT_THREADS_LEFT, NEW_THREAD_NS, NO_PROCESS,
};

use crate::atomic;

use super::{
    block::{control, count, tell},
    current::{current_tgid, current_tid, is_watched, tid_of},
    maps::CREATIONS,
    registers::user_registers,
    stop::is_held,
};

/// From `include/uapi/linux/sched.h`.
const CLONE_VM: u64 = 0x100;
const CLONE_THREAD: u64 = 0x0001_0000;

/// Threads of the watched process, and children with memory of their own.
#[raw_tracepoint]
fn newtask(ctx: RawTracePointContext) -> i32 {
    // SAFETY: the arguments of `task_newtask` are (struct task_struct *, unsigned long).
    let (task, flags) = unsafe {
        let args = ctx.as_ptr().cast::<u64>();
        (*args, *args.add(1))
    };
    if flags & (CLONE_THREAD | CLONE_VM) == CLONE_VM {
        return 0;
    }
    let Some(control) = control() else { return 0 };
    if !is_watched(control, current_tgid(control)) {
        return 0;
    }
    if flags & CLONE_THREAD == 0 {
        atomic::add(&control.arrivals.forks, 1);
        return 0;
    }
    count(control, Counter::Threads);
    atomic::add(&control.budget.spent_ns, NEW_THREAD_NS);
    let allowed = atomic::load(&control.budget.threads_allowed);
    if allowed == 0 || !atomic::replace(&control.budget.threads_allowed, allowed, allowed - 1) {
        count(control, Counter::ThreadsLeft);
        return 0;
    }
    if allowed == 1 {
        tell(EVENT_THREADS_LEFT, 0, 0, 0);
    }
    if let Some(tid) = tid_of(control, task) {
        let by = current_tid(control);
        atomic::add(&control.budget.spent_ns, CREATION_NS);
        tell_creation(tid, by);
        tell(EVENT_THREAD, tid, by, flags);
    }
    0
}

/// Tells where the current thread has called for a new one, if there is room.
#[inline(always)]
fn tell_creation(tid: u32, by: u32) {
    let Some(mut told) = CREATIONS.reserve(0) else {
        return;
    };
    let record = told.as_mut_ptr();
    let regs = user_registers().unwrap_or_default();
    // SAFETY: the record is reserved for this, and nobody else has a pointer to it.
    unsafe {
        (*record).tid = tid;
        (*record).by = by;
        (*record).boot_ns = bpf_ktime_get_boot_ns();
        bpf_get_current_comm((&raw mut (*record).comm).cast::<c_void>(), 16);
        (*record).regs = regs;
        (*record).stack_len = copy_stack(regs.rsp, (&raw mut (*record).stack).cast());
    }
    // It is looked for when the thread is told of.
    told.submit(u64::from(BPF_RB_NO_WAKEUP));
}

/// Copies user stack from `from` up; the result is the number of valid bytes.
///
/// # Safety
/// `to` points to `CREATOR_STACK` writable bytes of a record.
#[inline(always)]
unsafe fn copy_stack(from: u64, to: *mut u8) -> u64 {
    let mut length = 0;
    for piece in 0..CREATOR_STACK / CREATOR_PIECE {
        let offset = piece * CREATOR_PIECE;
        let source = from.wrapping_add(offset as u64);
        // SAFETY: the piece is within the buffer; the helper checks the source.
        let result = unsafe {
            read_user(
                to.add(offset).cast(),
                CREATOR_PIECE as u32,
                source as *const c_void,
            )
        };
        if result != 0 {
            break;
        }
        length = (offset + CREATOR_PIECE) as u64;
    }
    length
}

/// Another program is executed by a thread that nobody holds: it does not stop there, and all others of its process are gone. Its
/// first instruction is still to come. From then on addresses mean something else, so nothing is the watched process's until the
/// tracer knows of it.
#[raw_tracepoint]
fn exec(_ctx: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    // SAFETY: the helper has no preconditions.
    if is_watched(control, current_tgid(control))
        && !is_held(control, unsafe { bpf_get_current_task() })
    {
        atomic::store(&control.process.tgid, NO_PROCESS);
        tell(EVENT_EXEC, current_tid(control), 0, 0);
    }
    0
}

//! Threads of the watched process that are new, and programs that it executes.

use aya_ebpf::{
    EbpfContext as _, helpers::bpf_get_current_task, macros::raw_tracepoint,
    programs::RawTracePointContext,
};
use sanitizer_ebpf::{
    Counter, EVENT_EXEC, EVENT_THREAD, EVENT_THREADS_LEFT, NEW_THREAD_NS, NO_PROCESS,
};

use crate::atomic;

use super::{
    block::{control, count, tell},
    current::{current_tgid, current_tid, is_watched, tid_of},
    stop::is_held,
};

/// From `include/uapi/linux/sched.h`.
const CLONE_THREAD: u64 = 0x0001_0000;

/// Threads of the watched process.
#[raw_tracepoint]
fn newtask(ctx: RawTracePointContext) -> i32 {
    // SAFETY: the arguments of `task_newtask` are (struct task_struct *, unsigned long).
    let (task, flags) = unsafe {
        let args = ctx.as_ptr().cast::<u64>();
        (*args, *args.add(1))
    };
    if flags & CLONE_THREAD == 0 {
        return 0;
    }
    let Some(control) = control() else { return 0 };
    if !is_watched(control, current_tgid(control)) {
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
        tell(EVENT_THREAD, tid, current_tid(control), flags);
    }
    0
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

//! The thread that executes: who it is, and whether it is of the watched process.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_current_task};
use sanitizer_ebpf::{Control, NO_PROCESS};

use crate::{
    atomic,
    task::{Namespace, number_at, read_kernel},
};

#[inline(always)]
pub(super) fn current_tgid(control: &Control) -> u32 {
    if atomic::load(&control.namespace.level) == 0 {
        return (bpf_get_current_pid_tgid() >> 32) as u32;
    }
    // SAFETY: the helper has no preconditions.
    tgid_of(control, unsafe { bpf_get_current_task() }).unwrap_or(0)
}

/// Whether a process is the watched one. The idle task and, in a pid namespace, every process outside of it have the id 0, which is nobody's.
#[inline(always)]
pub(super) fn is_watched(control: &Control, tgid: u32) -> bool {
    u64::from(tgid) != NO_PROCESS && u64::from(tgid) == atomic::load(&control.process.tgid)
}

#[inline(always)]
pub(super) fn current_tid(control: &Control) -> u32 {
    if atomic::load(&control.namespace.level) == 0 {
        return bpf_get_current_pid_tgid() as u32;
    }
    // SAFETY: the helper has no preconditions.
    tid_of(control, unsafe { bpf_get_current_task() }).unwrap_or(0)
}

/// The tracer's pid namespace.
#[inline(always)]
fn namespace(control: &Control) -> Namespace {
    Namespace {
        pointer: atomic::load(&control.namespace.pointer),
        level: atomic::load(&control.namespace.level),
    }
}

/// The id of a task in the tracer's pid namespace; `None` for one that is not in it.
#[inline(always)]
pub(super) fn tid_of(control: &Control, task: u64) -> Option<u32> {
    namespace(control).id_of(&control.offsets, task)
}

/// The same of a task's process.
#[inline(always)]
pub(super) fn tgid_of(control: &Control, task: u64) -> Option<u32> {
    namespace(control).process_of(&control.offsets, task)
}

/// The id of the current thread in the pid namespace in which it lives.
#[inline(always)]
pub(super) fn innermost_tid(control: &Control) -> Option<u32> {
    let offsets = &control.offsets;
    let pid = of_current(offsets.task_thread_pid);
    let level = read_kernel::<u32>(pid, offsets.pid_level)?;
    let number = number_at(offsets, level);
    read_kernel::<u32>(pid, number.wrapping_add(offsets.upid_nr))
}

/// Takes note of the pid namespace of the current task, which is the tracer's.
#[inline(always)]
pub(super) fn learn_namespace(control: &Control) -> Option<()> {
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    let namespace = Namespace::of(&control.offsets, task)?;
    atomic::store(&control.namespace.level, namespace.level);
    atomic::store(&control.namespace.pointer, namespace.pointer);
    Some(())
}

/// A field of the current thread's `task_struct`; 0 where it cannot be known.
#[inline(always)]
pub(super) fn of_current(offset: u32) -> u64 {
    if offset == 0 {
        return 0;
    }
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    read_kernel::<u64>(task, offset).unwrap_or(0)
}

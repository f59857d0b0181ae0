//! The programs and their maps.

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap, RingBuf},
    helpers::{bpf_get_current_comm, bpf_get_current_task},
    macros::{btf_map, raw_tracepoint},
    programs::RawTracePointContext,
};
use sanitizer_ebpf::descent::{
    Control, ENDED, EXECUTES, Event, Executed, FORKED, MOST, TELLS_FORKS,
};

use crate::{
    atomic,
    executed::{executed, write_name},
    task::{Namespace, read_kernel},
};

/// From `include/uapi/linux/sched.h`.
const CLONE_THREAD: u64 = 0x0001_0000;

#[btf_map]
static CONTROL: Array<Control, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// The followed processes, with what is noted of each.
#[btf_map]
static FOLLOWED: HashMap<u32, u32, MOST> = HashMap::new();

/// What the daemon is told.
#[btf_map]
static EVENTS: RingBuf<Event, { 512 * 1024 }> = RingBuf::new();

/// Takes note of the pid namespace of the current task, which is the daemon's: never attached, but run by
/// the daemon.
#[raw_tracepoint]
fn descent_learn(_: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    if let Some(namespace) = Namespace::of(&control.offsets, current()) {
        atomic::store(&control.pid_level, namespace.level);
        atomic::store(&control.pid_namespace, namespace.pointer);
    }
    0
}

/// `task_newtask`: (struct task_struct *, unsigned long), in the parent, before the child runs.
#[raw_tracepoint]
fn descent_fork(ctx: RawTracePointContext) -> i32 {
    // SAFETY: these are the arguments.
    let (task, flags) = unsafe {
        let args = ctx.as_ptr().cast::<u64>();
        (*args, *args.add(1))
    };
    if flags & CLONE_THREAD != 0 {
        return 0;
    }
    let Some((control, parent, noted)) = followed() else {
        return 0;
    };
    let Some(child) = namespace(control).id_of(&control.offsets, task) else {
        return 0;
    };
    if FOLLOWED.insert(child, noted, 0).is_err() {
        atomic::add(&control.unfollowed, 1);
    } else if noted & TELLS_FORKS != 0 {
        tell(control, FORKED, child, parent);
    }
    0
}

/// `sched_process_exec`: (struct task_struct *, pid_t, struct linux_binprm *), in the process that executes another program from
/// now on. Until the daemon knows the program, its forks are told of.
#[raw_tracepoint]
fn descent_exec(ctx: RawTracePointContext) -> i32 {
    let Some((control, pid, _)) = followed() else {
        return 0;
    };
    // SAFETY: this is the argument.
    let binprm = unsafe { *ctx.as_ptr().cast::<u64>().add(2) };
    let _ = FOLLOWED.insert(pid, TELLS_FORKS, 0);
    let parent = read_kernel::<u64>(current(), control.offsets.task_parent)
        .and_then(|parent| namespace(control).process_of(&control.offsets, parent));
    let Some(mut told) = EVENTS.reserve_untyped::<Executed>(0) else {
        atomic::add(&control.lost, 1);
        return 0;
    };
    let record = told.as_mut_ptr();
    // SAFETY: the record is reserved for this, and nobody else has a pointer to it.
    unsafe {
        (*record).event = event(EXECUTES, pid, parent.unwrap_or(0));
        (*record).file = executed(&control.file_offsets, binprm).unwrap_or_default();
        write_name(&control.file_offsets, binprm, &mut (*record).path);
    }
    told.submit(0);
    0
}

/// `sched_process_exit`, in a thread that ends.
#[raw_tracepoint]
fn descent_exit(_: RawTracePointContext) -> i32 {
    let Some((control, pid, _)) = followed() else {
        return 0;
    };
    // It has left the threads that live by now.
    let live = read_kernel::<u64>(current(), control.offsets.task_signal)
        .and_then(|signal| read_kernel::<i32>(signal, control.offsets.signal_live));
    if live == Some(0) && FOLLOWED.remove(pid).is_ok() {
        tell(control, ENDED, pid, 0);
    }
    0
}

/// The process that runs, if it is followed, and what is noted of it.
#[inline(always)]
fn followed() -> Option<(&'static Control, u32, u32)> {
    let control = control()?;
    let pid = namespace(control).process_of(&control.offsets, current())?;
    // SAFETY: the value is a plain integer, of which any is valid.
    let noted = unsafe { FOLLOWED.get(pid) }?;
    Some((control, pid, *noted))
}

#[inline(always)]
fn control() -> Option<&'static Control> {
    CONTROL.get_ptr(0).map(|pointer| {
        // SAFETY: a map value lives as long as its map, and all fields that change while
        // programs run are atomics.
        unsafe { &*pointer }
    })
}

#[inline(always)]
fn namespace(control: &Control) -> Namespace {
    Namespace {
        pointer: atomic::load(&control.pid_namespace),
        level: atomic::load(&control.pid_level),
    }
}

#[inline(always)]
fn current() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_current_task() }
}

#[inline(always)]
fn tell(control: &Control, kind: u32, pid: u32, by: u32) {
    if EVENTS.output(event(kind, pid, by), 0).is_err() {
        atomic::add(&control.lost, 1);
    }
}

#[inline(always)]
fn event(kind: u32, pid: u32, by: u32) -> Event {
    Event {
        kind,
        pid,
        by,
        reserved: 0,
        comm: bpf_get_current_comm().unwrap_or_default(),
    }
}

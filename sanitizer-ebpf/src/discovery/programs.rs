//! The programs and their maps.

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap, LruHashMap, RingBuf},
    helpers::bpf_get_current_task,
    macros::{btf_map, raw_tracepoint},
    programs::RawTracePointContext,
};
use sanitizer_ebpf::{
    descent::ExecutedFile,
    discovery::{
        Control, ENDED, EXECUTES, Event, Executed, FileKey, FileState, MOST_FILES, MOST_PROCESSES,
        RING,
    },
};

use crate::{
    atomic,
    executed::{executed, write_name},
    task::{Namespace, read_kernel},
};

#[btf_map]
static CONTROL: Array<Control, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Files of no interest, each with the state in which it is that. A storm of forks costs a look into it.
#[btf_map]
static DULL: LruHashMap<FileKey, FileState, MOST_FILES> = LruHashMap::new();

/// The processes that were told of, or of which user space has said that they are of interest, until it says that they are not, or they end.
#[btf_map]
static TOLD: HashMap<u32, u32, MOST_PROCESSES> = HashMap::new();

/// What user space is told.
#[btf_map]
static EVENTS: RingBuf<Event, RING> = RingBuf::new();

/// Takes note of the pid namespace of the current task, which is user space's: never attached, but run by it.
#[raw_tracepoint]
fn discovery_learn(_: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    if let Some(namespace) = Namespace::of(&control.offsets, current()) {
        atomic::store(&control.pid_level, namespace.level);
        atomic::store(&control.pid_namespace, namespace.pointer);
    }
    0
}

/// `sched_process_exec`: (struct task_struct *, pid_t, struct linux_binprm *), in the process that executes another program from
/// now on.
#[raw_tracepoint]
fn discovery_exec(ctx: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    // SAFETY: this is the argument.
    let binprm = unsafe { *ctx.as_ptr().cast::<u64>().add(2) };
    let file = executed(&control.file_offsets, binprm).unwrap_or_default();
    let Some(pid) = namespace(control).process_of(&control.offsets, current()) else {
        return 0;
    };
    // Of who was told of before user space must hear: it takes him for a process of the program of before.
    if is_dull(&file) && TOLD.remove(pid).is_err() {
        atomic::add(&control.dropped, 1);
        return 0;
    }
    let parent = read_kernel::<u64>(current(), control.offsets.task_parent)
        .and_then(|parent| namespace(control).process_of(&control.offsets, parent));
    // Before user space hears of it, which may say at once that it is of no interest.
    if TOLD.insert(pid, 0, 0).is_err() {
        atomic::add(&control.lost, 1);
    }
    let Some(mut told) = EVENTS.reserve_untyped::<Executed>(0) else {
        atomic::add(&control.lost, 1);
        return 0;
    };
    let record = told.as_mut_ptr();
    // SAFETY: the record is reserved for this, and nobody else has a pointer to it.
    unsafe {
        (*record).event = Event {
            kind: EXECUTES,
            pid,
            parent: parent.unwrap_or(0),
            status: 0,
        };
        (*record).file = file;
        write_name(&control.file_offsets, binprm, &mut (*record).path);
    }
    told.submit(0);
    0
}

/// `sched_process_exit`, in a thread that ends.
#[raw_tracepoint]
fn discovery_exit(_: RawTracePointContext) -> i32 {
    let Some(control) = control() else { return 0 };
    // It has left the threads that live by now.
    let live = read_kernel::<u64>(current(), control.offsets.task_signal)
        .and_then(|signal| read_kernel::<i32>(signal, control.offsets.signal_live));
    if live != Some(0) {
        return 0;
    }
    let Some(pid) = namespace(control).process_of(&control.offsets, current()) else {
        return 0;
    };
    if TOLD.remove(pid).is_err() {
        return 0;
    }
    let event = Event {
        kind: ENDED,
        pid,
        parent: 0,
        status: read_kernel::<u32>(current(), control.task_exit_code).unwrap_or(0),
    };
    if EVENTS.output(event, 0).is_err() {
        atomic::add(&control.lost, 1);
    }
    0
}

/// Whether a file is known to be of no interest as it is now.
#[inline(always)]
fn is_dull(file: &ExecutedFile) -> bool {
    // SAFETY: the value is plain integers, of which any are valid.
    let known = unsafe { DULL.get(FileKey::of(file)) };
    known.is_some_and(|state| *state == FileState::of(file))
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

//! How a thread is claimed and stopped, and whether it can be without harm (invariant I1).

use aya_ebpf::helpers::{bpf_get_current_task, generated::bpf_send_signal_thread};
use sanitizer_ebpf::{Control, Counter, delivery, phase};

use crate::{atomic, task::read_kernel};

use super::{
    current::{current_tid, of_current, tgid_of},
    maps::STANDING,
};

/// From `include/uapi/asm-generic/signal.h` for x86.
const SIGTRAP: u32 = 5;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// Claims the current thread for the next generation; false where another gate was first.
#[inline(always)]
pub(super) fn claim(control: &Control, word: u64, now: u64) -> bool {
    let claimed = phase::word(phase::generation(word) + 1, phase::CLAIMED);
    if !atomic::replace(&control.phase, word, claimed) {
        return false;
    }
    atomic::store(&control.claim.owner, u64::from(current_tid(control)));
    atomic::store(&control.claim.again, 0);
    atomic::store(&control.claim.stack_pointer, 0);
    stands(control, now);
    // Some gates can be interrupted here, for so long that the tracer takes this claim for one whose stop was lost.
    let is_ours = atomic::load(&control.phase) == claimed;
    if !is_ours {
        atomic::replace(&control.watchdog.standing_since_ns, now, 0);
    }
    is_ours
}

/// From here on the current thread stands still, and the watchdog looks after it.
#[inline(always)]
pub(super) fn stands(control: &Control, now: u64) {
    let waited = of_current(control.offsets.task_run_delay);
    atomic::store(&control.claim.run_delay_ns, waited);
    atomic::store(&control.claim.time_ns, now);
    atomic::store(&control.watchdog.standing_since_ns, now);
    // A full buffer is one that the watchdog is about to read.
    let _ = STANDING.output(now, 0);
}

/// The signal that stops threads, whoever sends it.
#[inline(always)]
fn signal_of(control: &Control) -> u32 {
    match atomic::load(&control.events.delivery) as u32 {
        delivery::SIGTRAP => SIGTRAP,
        signal => signal,
    }
}

/// Stops the current thread at its present instruction. The result is the program's. Events of a processor have no
/// signal of their own.
#[inline(always)]
pub(super) fn stop(control: &Control, by_cpu: bool) -> u32 {
    match atomic::load(&control.events.delivery) as u32 {
        delivery::SIGTRAP if !by_cpu => 1,
        _ => send(control),
    }
}

/// Stops the current thread by a signal that is no event's own.
#[inline(always)]
fn send(control: &Control) -> u32 {
    // SAFETY: the helper checks its argument.
    unsafe { bpf_send_signal_thread(signal_of(control)) };
    0
}

/// Whether a signal of ours stops the current thread and can do nothing else, whatever happens
/// to the tracer (invariant I1): our tracer holds it, and the signal is ignored.
#[inline(always)]
pub(super) fn stoppable(control: &Control) -> bool {
    cannot_stop(control).is_none()
}

/// Why the current thread cannot be stopped, if it cannot.
#[inline(always)]
pub(super) fn cannot_stop(control: &Control) -> Option<Counter> {
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    if !is_held(control, task) {
        Some(Counter::SampleNotHeld)
    } else if !ignores(control, task) {
        Some(Counter::SampleUnstoppable)
    } else {
        None
    }
}

/// Whether our tracer holds a thread.
#[inline(always)]
pub(super) fn is_held(control: &Control, task: u64) -> bool {
    let offsets = &control.offsets;
    if read_kernel::<u32>(task, offsets.task_ptrace).unwrap_or(0) == 0 {
        return false;
    }
    let Some(parent) = read_kernel::<u64>(task, offsets.task_parent) else {
        return false;
    };
    tgid_of(control, parent) == Some(atomic::load(&control.process.tracer) as u32)
}

/// Whether the signal that stops threads is not blocked in one, and its disposition is to be ignored.
#[inline(always)]
fn ignores(control: &Control, task: u64) -> bool {
    let offsets = &control.offsets;
    let Some(blocked) = read_kernel::<u64>(task, offsets.task_blocked) else {
        return false;
    };
    let Some(sighand) = read_kernel::<u64>(task, offsets.task_sighand) else {
        return false;
    };
    let index = signal_of(control).wrapping_sub(1) & 63;
    if blocked >> index & 1 != 0 {
        return false;
    }
    let action = offsets
        .sighand_action
        .wrapping_add(index.wrapping_mul(offsets.k_sigaction_size))
        .wrapping_add(offsets.sa_handler);
    match read_kernel::<u64>(sighand, action) {
        Some(SIG_IGN) => true,
        // The signals that a gate sends by itself are ignored by default, too.
        Some(SIG_DFL) => atomic::load(&control.events.delivery) as u32 != delivery::SIGTRAP,
        _ => false,
    }
}

//! The gates: small programs that decide in the kernel whether an event matters.
//!
//! * `clock_gate` on task-clock events: may this thread be sampled, here and now?
//! * `reach_gate` on instruction breakpoints: has the owner of the sample reached its site?
//! * `watch_gate` on data watchpoints: is this access evidence? If so it is recorded at once.
//! * `probe_gate` on the kernel's probes (uprobes) that stand at sites, where there are any: may whoever has come to one be claimed?
//! * `newtask` on the `task_newtask` tracepoint: threads of the target.
//! * `switched` on the `sched_switch` tracepoint, where that is worth it: which of them are off their processors in the midst of
//!   user code.
//!
//! The value that a `perf_event` program returns decides about the event's signal (kernel
//! commit c4fcc7d1, Linux 6.10): 0 swallows it. The entries are written by hand because the
//! `#[perf_event]` macro of aya-ebpf discards that value.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(
    target_arch = "bpf",
    feature(core_intrinsics),
    allow(internal_features)
)]

#[cfg(target_arch = "bpf")]
mod atomic;
#[cfg(target_arch = "bpf")]
mod gates;
#[cfg(target_arch = "bpf")]
mod task;

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(not(target_arch = "bpf"))]
fn main() {}

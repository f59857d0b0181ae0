//! Who forks, executes and ends, of the processes below those that the daemon has named. A child is one
//! of them from its fork on, whether anybody traces it or its parent or not: nothing here depends on
//! who is faster.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(
    target_arch = "bpf",
    feature(core_intrinsics),
    allow(internal_features)
)]

#[cfg(target_arch = "bpf")]
#[path = "../atomic.rs"]
#[allow(dead_code)]
mod atomic;
#[cfg(target_arch = "bpf")]
#[path = "../executed.rs"]
mod executed;
#[cfg(target_arch = "bpf")]
mod programs;
#[cfg(target_arch = "bpf")]
#[path = "../task.rs"]
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

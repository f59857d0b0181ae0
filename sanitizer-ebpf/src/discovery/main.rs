//! Who executes what on a machine, but for programs that are known to be of no interest; and who of those that were told of ends, and how.
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

//! Who comes to the kernel's probes (uprobes) of the watched process, and what he is about to use. It only looks: nobody is stopped, and nothing of the
//! process is changed.
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
mod programs;
#[cfg(target_arch = "bpf")]
#[path = "../gates/registers.rs"]
#[allow(dead_code)]
mod registers;
#[cfg(target_arch = "bpf")]
#[path = "../task.rs"]
#[allow(dead_code)]
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

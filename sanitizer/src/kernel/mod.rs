//! Everything that talks to the kernel: perf events, eBPF gates, ptrace, BTF. No other module
//! makes a system call that `std` or `nix` do not make for it, and no other module is unsafe.

pub mod btf;
pub mod calibrate;
pub mod cpu_watch;
pub mod cpus;
pub mod descriptors;
pub mod error;
pub mod fault;
pub mod gates;
pub mod object;
pub mod perf;
pub mod probe;
pub mod process;
pub mod ptrace;
mod reaper;
pub mod ring;
pub mod shared;
pub mod tables;

pub use error::KernelError;

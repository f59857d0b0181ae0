//! Everything that talks to the kernel: perf events, eBPF gates, ptrace, BTF. No other module
//! makes a system call that `std` or `nix` do not make for it, and none is unsafe outside of its tests.

pub mod barred;
pub mod breakpoints;
pub mod btf;
pub mod calibrate;
pub mod cpu_watch;
pub mod cpus;
pub mod dead_man;
pub mod descent;
pub mod descriptors;
pub mod discovery;
pub mod error;
pub mod executed;
pub mod fault;
pub mod file_map;
pub mod folder;
pub mod foreign;
pub mod gates;
mod heap;
pub mod limits;
pub mod named;
pub mod nameless;
pub mod object;
pub mod open_files;
pub mod origin;
pub mod passing;
pub mod perf;
pub mod probe;
pub mod probes;
pub mod process;
pub mod ptrace;
mod raw_tracepoints;
mod reaper;
pub mod requests;
pub mod rights;
pub mod ring;
pub mod robust_list;
pub mod sandbox;
pub mod service;
pub mod setcap;
pub mod settings;
pub mod shared;
pub mod tables;
pub mod terminal;
mod time_namespace;

pub use error::KernelError;

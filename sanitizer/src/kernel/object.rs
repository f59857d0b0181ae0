//! The eBPF objects with the gates, with the programs that follow a program's descent, with those that discover programs, and with the one behind the kernel's probes, embedded by `build.rs`, so that gwp-race is one file.

/// The object as aya loads it, aligned as its ELF structures need. Empty where gwp-race was
/// built by plain `cargo build`, without `cargo xtask build` having built the object before.
pub static GATES_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gates.o"));

/// The same of the programs that tell who forks, executes and ends.
pub static DESCENT_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/descent.o"));

/// The same of the programs that tell who executes what on a machine.
pub static DISCOVERY_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/discovery.o"));

/// The same of the program behind the kernel's probes.
pub static PROBES_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes.o"));

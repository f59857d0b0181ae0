//! The eBPF objects with the gates, with the programs that follow a program's descent, with those that discover programs, and with the one behind the kernel's probes, embedded by `build.rs`, so that gwp-race is one file.

use std::sync::{LazyLock, Mutex, PoisonError};

use aya::{Ebpf, EbpfError, EbpfLoader, VerifierLogLevel};

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

/// aya's loader. It reads all of the kernel's types (BTF) when it is made, which takes 30 ms and some MiB; our objects are not relocated by them. So a process
/// makes one.
static LOADER: LazyLock<Mutex<EbpfLoader<'static>>> = LazyLock::new(|| {
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    loader.verifier_log_level(VerifierLogLevel::DISABLE);
    Mutex::new(loader)
});

/// Makes an object's maps, and takes its programs in. `log_level`: how much the programs log, where they do, as aya-log counts it.
///
/// # Errors
/// Fails as aya does.
pub fn load(object: &[u8], log_level: &'static u8) -> Result<Ebpf, EbpfError> {
    let mut loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
    loader
        .override_global(aya_log::LEVEL, log_level, false)
        .load(object)
}

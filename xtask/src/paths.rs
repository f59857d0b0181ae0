//! Where things are in the source tree.

use std::path::{Path, PathBuf};

/// The root of the source tree.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// The host workspace's build directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where tools that the build needs are installed: they belong to this tree, not to the machine.
pub fn tools() -> PathBuf {
    root().join("target/tools")
}

/// The crate of the eBPF gates.
pub fn ebpf_crate() -> PathBuf {
    root().join("sanitizer-ebpf")
}

/// The eBPF object, once built.
pub fn ebpf_object() -> PathBuf {
    ebpf_crate().join("target/bpfel-unknown-none/release/gates")
}

/// The file that a command name stands for, looked up in PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

//! Puts the eBPF object that `cargo xtask build` has built where `kernel::object` embeds it.
//!
//! Without an object an empty one is embedded: checks, lints and documentation need none, and
//! a gwp-race built so says at run time how to build it rightly.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Names the object file, where it is not at its usual place.
const OBJECT_VARIABLE: &str = "GWP_RACE_EBPF_OBJECT";
/// Where `cargo xtask build` leaves the object, seen from this package.
const USUAL_PLACE: &str = "../sanitizer-ebpf/target/bpfel-unknown-none/release/gates";

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed={OBJECT_VARIABLE}");
    let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?;
    let bytes = match env::var_os(OBJECT_VARIABLE).map(PathBuf::from) {
        Some(named) => {
            println!("cargo::rerun-if-changed={}", named.display());
            fs::read(&named).map_err(|cause| {
                format!(
                    "{OBJECT_VARIABLE} names {}: {cause}; name a file or unset it",
                    named.display()
                )
            })?
        }
        None => usual_object(Path::new(USUAL_PLACE)),
    };
    let embedded = Path::new(&directory).join("gates.o");
    fs::write(&embedded, bytes).map_err(|cause| format!("writing {}: {cause}", embedded.display()))
}

fn usual_object(place: &Path) -> Vec<u8> {
    match fs::read(place) {
        Ok(bytes) => {
            println!("cargo::rerun-if-changed={}", place.display());
            bytes
        }
        Err(_) => {
            // Watching a file that is missing would rebuild the package each time; the object
            // appears somewhere below the directory of its crate.
            println!("cargo::rerun-if-changed=../sanitizer-ebpf");
            Vec::new()
        }
    }
}

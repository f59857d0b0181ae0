//! Puts the eBPF object that `cargo xtask build` has built where `kernel::object` embeds it.
//!
//! Checks, lints and documentation need no object: where there is none, they get an empty one, and a gwp-race
//! built so says at run time how to build it rightly. What is built to be used (with the profile `release`, as `cargo install` does) is not built without.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Names the object file of the gates, where it is not at its usual place; the others are beside it.
const OBJECT_VARIABLE: &str = "GWP_RACE_EBPF_OBJECT";
/// Where `cargo xtask build` leaves the objects, seen from this package.
const USUAL_PLACE: &str = "../sanitizer-ebpf/target/bpfel-unknown-none/release";
/// Their names.
const OBJECTS: [&str; 4] = ["gates", "descent", "discovery", "probes"];

fn main() -> ExitCode {
    match OBJECTS.into_iter().try_for_each(embed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn embed(name: &str) -> Result<(), String> {
    println!("cargo::rerun-if-env-changed={OBJECT_VARIABLE}");
    let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?;
    let bytes = match env::var_os(OBJECT_VARIABLE).map(PathBuf::from) {
        Some(named) => {
            let named = if name == "gates" {
                named
            } else {
                named.with_file_name(name)
            };
            println!("cargo::rerun-if-changed={}", named.display());
            fs::read(&named).map_err(|cause| {
                format!(
                    "{OBJECT_VARIABLE} stands for {}: {cause}; name a file that has the other \
                     objects beside it, or unset it",
                    named.display()
                )
            })?
        }
        None => usual_object(&Path::new(USUAL_PLACE).join(name))?,
    };
    let embedded = Path::new(&directory).join(format!("{name}.o"));
    fs::write(&embedded, bytes).map_err(|cause| format!("writing {}: {cause}", embedded.display()))
}

fn usual_object(place: &Path) -> Result<Vec<u8>, String> {
    match fs::read(place) {
        Ok(bytes) => {
            println!("cargo::rerun-if-changed={}", place.display());
            Ok(bytes)
        }
        Err(cause) if is_to_be_used() => Err(format!(
            "the eBPF gates, which gwp-race has inside, are not built ({}: {cause}), and cargo alone does not build them; use `cargo xtask install`, \
                 or `cargo xtask build --release`, in the root of the source tree",
            place.display()
        )),
        Err(_) => {
            // Watching a file that is missing would rebuild the package each time; the object
            // appears somewhere below the directory of its crate.
            println!("cargo::rerun-if-changed=../sanitizer-ebpf");
            Ok(Vec::new())
        }
    }
}

/// Whether this is no check, and no fuzzing of what needs no gates (`--cfg fuzzing`).
fn is_to_be_used() -> bool {
    env::var_os("PROFILE").is_some_and(|profile| profile == "release")
        && env::var_os("CARGO_CFG_FUZZING").is_none()
}

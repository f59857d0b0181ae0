//! Which gwp-race is tested, and how thoroughly.

use std::path::{Path, PathBuf};

/// The gwp-race under test: `GWP_RACE_BIN`, or the tree's release build.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn gwp_race() -> PathBuf {
    let built = root().join("target/release/gwp-race");
    let binary = std::env::var_os("GWP_RACE_BIN").map_or(built, PathBuf::from);
    assert!(
        binary.is_file(),
        "{} does not exist: run the tests by `cargo xtask test`, which builds it",
        binary.display()
    );
    binary
}

/// The same with the feature `fault-injection`, which `cargo xtask test` builds beside it.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn gwp_race_faulty() -> PathBuf {
    let binary = gwp_race().with_file_name("gwp-race-faulty");
    assert!(
        binary.is_file(),
        "{} does not exist: run the tests by `cargo xtask test`, or build it by `cargo build \
         --release -p gwp-race --features fault-injection --bin gwp-race-faulty`",
        binary.display()
    );
    binary
}

/// Whether every configuration is to be tested (`cargo xtask test --full`).
#[must_use]
pub fn full() -> bool {
    std::env::var_os("GWP_RACE_FULL").is_some_and(|value| value == "1")
}

/// The root of the source tree.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// The sources of the fixtures.
#[must_use]
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

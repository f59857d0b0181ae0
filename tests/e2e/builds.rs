//! The fixtures without gwp-race.

use std::process::Command;

use gwp_race_tests::{Configuration, compile};

use crate::catalogue;

/// Check that the fixtures themselves work: a program that fails on its own proves nothing.
#[test]
fn fixtures_run_by_themselves() {
    let library = catalogue::counter_library(Configuration::USUAL);
    for program in catalogue::all() {
        let built = compile::program(&program, Configuration::USUAL).unwrap();
        let output = Command::new(&built)
            .arg("0.05")
            .env("COUNTER_LIBRARY", &library)
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stdout.ends_with(b"done\n"),
            "{}: {output:?}",
            program.source
        );
    }
}

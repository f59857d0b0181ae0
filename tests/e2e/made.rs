//! Accesses that the compiler has made of the source's: merged, widened, with what lies between. Race-free as written, such
//! programs stay silent, and their twins, in which the same bytes have a race, are caught.

use gwp_race_tests::{Compiler, Configuration};

use crate::{catalogue, silence};

/// In the form that the compiler gives it at that level.
fn made(source: &str, compiler: Compiler, opt: u8) {
    let programs = catalogue::made_programs();
    let program = programs
        .iter()
        .find(|program| program.program.source == source)
        .unwrap();
    let configuration = Configuration {
        compiler,
        opt,
        ..Configuration::USUAL
    };
    silence::check(program, vec![configuration]);
}

/// Check an atomic and a plain load that became one instruction.
#[test]
fn merged_loads() {
    made("made/merged_loads.cpp", Compiler::Clang22, 2);
}

/// Check an atomic and a plain store that became one instruction.
#[test]
fn merged_stores() {
    made("made/merged_stores.cpp", Compiler::Clang16, 2);
}

/// Check numbers of 16 and 8 bits that are loaded with what lies behind them.
#[test]
fn widened_load() {
    made("made/widened_load.cpp", Compiler::Clang22, 2);
}

/// Check a number of 16 bits that is loaded with what lies behind it, in safe Rust.
#[test]
fn widened_load_of_rust() {
    made("made/widened_load.rs", Compiler::Clang22, 2);
}

/// Check loops over one member of each slot, which load the others too.
#[test]
fn gaps() {
    made("made/gaps.cpp", Compiler::Clang22, 2);
}

/// Check the same with wider vectors and other shuffles.
#[test]
fn gaps_unrolled() {
    made("made/gaps.cpp", Compiler::Clang16, 3);
}

/// Check a vector of which one lane is used.
#[test]
fn splat() {
    made("made/splat.cpp", Compiler::Clang16, 2);
}

/// Check copies of parts of objects, with the padding in which others lie.
#[test]
fn tail_padding() {
    made("made/tail_padding.cpp", Compiler::Clang22, 2);
}

/// Check the same as another compiler says where variables are.
#[test]
fn tail_padding_of_others() {
    made("made/tail_padding.cpp", Compiler::Clang16, 1);
}

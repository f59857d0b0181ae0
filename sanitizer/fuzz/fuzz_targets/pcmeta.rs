//! One metadata section with nothing around it, so that the fuzzer's bytes are its entries.
//! Format of the input: one byte that chooses the section's name, how numbers are written (64: highest byte first,
//! 32: addresses of four bytes) and where the code is, then the section.

#![no_main]

use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::image::Encoding;
use gwp_race::pcmeta::{Metadata, RawSection};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 6] = [
    "sanmd_covered",
    "sanmd_atomics",
    "sanmd_covered2",
    "sanmd_atomics2",
    "sanmd_covered65538",
    "sanmd_atomics65538",
];
/// Where the section is: between two stretches of code.
const ADDRESS: LinkAddr = LinkAddr(0x8000);

fuzz_target!(|input: &[u8]| {
    let Some((&choice, data)) = input.split_first() else {
        return;
    };
    let name = NAMES[usize::from(choice & 0x1f) % NAMES.len()];
    let far = if choice & 0x80 != 0 { 0xf000_0000 } else { 0 };
    let text = [
        LinkAddr(0x1000)..LinkAddr(0x8000),
        LinkAddr(0x10_0000 + far)..LinkAddr(0x20_0000 + far),
    ];
    let section = RawSection {
        name,
        address: ADDRESS,
        data,
        encoding: Encoding {
            is_32_bit: choice & 0x20 != 0,
            is_big_endian: choice & 0x40 != 0,
        },
    };
    match Metadata::decode(&[section], &text, Path::new("fuzzed")) {
        Ok(metadata) => check(&metadata),
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.contains("fuzzed") && message.contains(name),
                "{message}"
            );
        }
    }
});

/// What holds of all tables: they are sorted, without overlaps, within the code, and find what
/// they list.
fn check(metadata: &Metadata) {
    let mut end = LinkAddr(0x1000);
    for function in metadata.functions() {
        assert!(end <= function.start && function.start < function.end);
        assert_eq!(metadata.function_at(function.start), Some(function));
        assert_eq!(
            metadata.function_at(function.end.offset(-1)),
            Some(function)
        );
        end = function.end;
    }
    assert!(metadata.atomics().is_sorted());
    for pc in metadata.atomics() {
        assert!(pc >= LinkAddr(0x1000) && metadata.is_atomic(pc));
    }
}

//! A section of stack sizes. Format of the input: the section.

#![no_main]

use gwp_race::pcmeta::StackSizes;
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let sizes = decode(".stack_sizes", data, |section, file| {
        StackSizes::decode(&[section], file)
    });
    let Some(sizes) = sizes else { return };
    assert!(sizes.sizes().is_sorted());
    for size in sizes.sizes() {
        assert!(sizes.of(size.function) >= Some(size.size));
    }
});

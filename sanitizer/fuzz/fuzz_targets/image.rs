//! Whole files: whatever their headers say, an answer or an error.
//! Format of the input: an ELF file.

#![no_main]

use std::hint::black_box;
use std::path::Path;

use gwp_race::image::Image;
use gwp_race::pcmeta::{
    BlockMap, Coverage, FaultMaps, Metadata, PseudoProbes, StackMaps, StackSizes,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::parse_any(bytes.to_vec(), Path::new("fuzzed")) else {
        return;
    };
    for section in image.sections() {
        black_box(image.bytes_at(section.address, section.data.len()));
        black_box(image.link_address_of(section.offset));
        black_box(image.relocated(&section).is_ok());
    }
    black_box((image.functions(), image.objects()));
    black_box((image.debuglink(), image.build_id()));
    if let Ok(metadata) = Metadata::load(&image) {
        check(&metadata);
    }
    black_box((
        BlockMap::load(&image).is_ok(),
        BlockMap::for_each(&image, |_| {}).is_ok(),
    ));
    black_box((
        StackMaps::load(&image).is_ok(),
        StackSizes::load(&image).is_ok(),
    ));
    black_box((
        FaultMaps::load(&image).is_ok(),
        Coverage::load(&image).is_ok(),
    ));
    black_box((
        PseudoProbes::load(&image).is_ok(),
        PseudoProbes::for_each(&image, |_, _| {}).is_ok(),
    ));
});

/// What holds of all tables: they are sorted, without overlaps, and find what they list.
fn check(metadata: &Metadata) {
    let mut end = None;
    for function in metadata.functions() {
        assert!(function.start < function.end && end.is_none_or(|end| end <= function.start));
        assert_eq!(metadata.function_at(function.start), Some(function));
        assert_eq!(
            metadata.function_at(function.end.offset(-1)),
            Some(function)
        );
        end = Some(function.end);
    }
    assert!(metadata.atomics().is_sorted());
    for pc in metadata.atomics() {
        assert!(metadata.is_atomic(pc));
    }
}

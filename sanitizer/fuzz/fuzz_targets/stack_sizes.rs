//! A section of stack sizes. Format of the input: the section.

#![no_main]

use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{RawSection, StackSizes};
use gwp_race_fuzz::{check_error, within_limits};
use libfuzzer_sys::fuzz_target;

const NAME: &str = ".stack_sizes";

fuzz_target!(|data: &[u8]| {
    let section = RawSection {
        name: NAME,
        address: LinkAddr(0),
        data,
    };
    match within_limits(data.len(), || {
        StackSizes::decode(&[section], Path::new("fuzzed"))
    }) {
        Ok(sizes) => {
            assert!(sizes.sizes().is_sorted());
            for size in sizes.sizes() {
                assert!(sizes.of(size.function) >= Some(size.size));
            }
        }
        Err(error) => check_error(&error, NAME),
    }
});

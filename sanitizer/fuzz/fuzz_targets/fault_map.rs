//! A section of fault maps. Format of the input: the section.

#![no_main]

use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{Fault, FaultMaps, RawSection};
use gwp_race_fuzz::{check_error, within_limits};
use libfuzzer_sys::fuzz_target;

const NAME: &str = ".llvm_faultmaps";

fuzz_target!(|data: &[u8]| {
    let section = RawSection {
        name: NAME,
        address: LinkAddr(0),
        data,
    };
    match within_limits(data.len(), || {
        FaultMaps::decode(&[section], Path::new("fuzzed"))
    }) {
        Ok(maps) => {
            assert!(maps.faults().is_sorted_by_key(Fault::pc));
            for fault in maps.faults() {
                assert_eq!(
                    maps.at(fault.pc()).map(|found| found.pc()),
                    Some(fault.pc())
                );
            }
        }
        Err(error) => check_error(&error, NAME),
    }
});

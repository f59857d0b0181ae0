//! A section of fault maps. Format of the input: the section.

#![no_main]

use gwp_race::pcmeta::{Fault, FaultMaps};
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let maps = decode(".llvm_faultmaps", data, |section, file| {
        FaultMaps::decode(&[section], file)
    });
    let Some(maps) = maps else { return };
    assert!(maps.faults().is_sorted_by_key(Fault::pc));
    for fault in maps.faults() {
        assert_eq!(
            maps.at(fault.pc()).map(|found| found.pc()),
            Some(fault.pc())
        );
    }
});

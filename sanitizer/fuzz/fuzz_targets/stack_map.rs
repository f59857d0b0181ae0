//! A section of stack maps. Format of the input: the section.

#![no_main]

use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{RawSection, StackMaps};
use gwp_race_fuzz::{check_error, within_limits};
use libfuzzer_sys::fuzz_target;

const NAME: &str = ".llvm_stackmaps";

fuzz_target!(|data: &[u8]| {
    let section = RawSection {
        name: NAME,
        address: LinkAddr(0),
        data,
    };
    let decode = || StackMaps::decode(&[section], Path::new("fuzzed"));
    match within_limits(data.len(), decode) {
        Ok(maps) => {
            for map in maps.maps() {
                assert_eq!(map.records().count(), map.header.records);
                assert_eq!(map.functions().count(), map.header.functions);
                assert_eq!(map.constants().count(), map.header.constants);
            }
            assert!(maps.pcs().is_sorted());
            for pc in maps.pcs().take(100) {
                let record = maps.records_at(pc).next().expect("it is listed");
                assert_eq!(record.pc(), Some(pc));
            }
        }
        Err(error) => check_error(&error, NAME),
    }
});

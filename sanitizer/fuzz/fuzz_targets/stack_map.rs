//! A section of stack maps. Format of the input: the section.

#![no_main]

use gwp_race::pcmeta::StackMaps;
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let maps = decode(".llvm_stackmaps", data, |section, file| {
        StackMaps::decode(&[section], file)
    });
    let Some(maps) = maps else { return };
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
});

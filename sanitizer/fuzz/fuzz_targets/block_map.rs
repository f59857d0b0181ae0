//! A section of a block map. Format of the input: a byte that is odd for the old section type, then the
//! section.

#![no_main]

use std::path::Path;

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{BlockMap, BlockMapSection, RawSection};
use gwp_race_fuzz::{check_error, within_limits};
use libfuzzer_sys::fuzz_target;

const NAME: &str = ".llvm_bb_addr_map";

fuzz_target!(|input: &[u8]| {
    let Some((&choice, data)) = input.split_first() else {
        return;
    };
    let section = BlockMapSection {
        raw: RawSection {
            name: NAME,
            address: LinkAddr(0),
            data,
        },
        is_old: choice & 1 != 0,
    };
    let text = [
        LinkAddr(0x1000)..LinkAddr(0x9000),
        LinkAddr(0x10_0000)..LinkAddr(0xf000_0000),
    ];
    let decode = || BlockMap::decode(&[section], &text, Path::new("fuzzed"));
    match within_limits(data.len(), decode) {
        Ok(map) => {
            let mut end = LinkAddr(0x1000);
            for block in map.blocks() {
                assert!(end <= block.start && block.start < block.end);
                assert_eq!(map.block_at(block.start), Some(block));
                assert_eq!(map.block_at(block.end.offset(-1)), Some(block));
                end = block.end;
            }
        }
        Err(error) => check_error(&error, NAME),
    }
});

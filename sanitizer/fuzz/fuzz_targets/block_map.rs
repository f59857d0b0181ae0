//! A section of a block map. Format of the input: a byte that is odd for the old section type, then the
//! section.

#![no_main]

use gwp_race::addr::LinkAddr;
use gwp_race::pcmeta::{BlockMap, BlockMapSection};
use gwp_race_fuzz::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, data)) = input.split_first() else {
        return;
    };
    let text = [
        LinkAddr(0x1000)..LinkAddr(0x9000),
        LinkAddr(0x10_0000)..LinkAddr(0xf000_0000),
    ];
    let map = decode(".llvm_bb_addr_map", data, |raw, file| {
        let section = BlockMapSection {
            raw,
            is_old: choice & 1 != 0,
        };
        BlockMap::decode(&[section], &text, file)
    });
    let Some(map) = map else { return };
    let mut end = LinkAddr(0x1000);
    for block in map.blocks() {
        assert!(end <= block.start && block.start < block.end);
        assert_eq!(map.block_at(block.start), Some(block));
        assert_eq!(map.block_at(block.end.offset(-1)), Some(block));
        end = block.end;
    }
});

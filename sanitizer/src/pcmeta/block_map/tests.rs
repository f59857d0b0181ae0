//! Block maps of all versions and features, written here and read back; of real programs, against
//! their instructions; and of bytes that no compiler would write.

use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use proptest::prelude::*;

use super::*;
use crate::image::Encoding;
use crate::pcmeta::testing::put_uleb128;

const TEXT: LinkAddr = LinkAddr(0x1000);
const TEXT_END: LinkAddr = LinkAddr(0x9000);

/// What is known of a block before it is written.
#[derive(Clone, Debug)]
struct Written {
    id: u32,
    gap: u32,
    callsites: Vec<u32>,
    rest: u32,
    flags: u8,
    hash: u64,
    frequency: u64,
    post_link: u32,
    successors: Vec<(u32, u32, u32)>,
}

/// What is known of a function before it is written: ranges of blocks.
#[derive(Clone, Debug)]
struct WrittenFunction {
    version: u8,
    features: u16,
    entry_count: u64,
    ranges: Vec<(u64, Vec<Written>)>,
}

impl WrittenFunction {
    fn has(&self, feature: BlockMapFeatures) -> bool {
        self.features & feature.0 != 0
    }

    fn blocks(&self) -> impl Iterator<Item = &Written> {
        let is_listed = !self.has(BlockMapFeatures::OMITTED_ENTRIES);
        (self.ranges.iter())
            .flat_map(|(_, blocks)| blocks)
            .filter(move |_| is_listed)
    }

    fn write(&self, out: &mut Vec<u8>, is_old: bool) {
        if !is_old {
            out.push(self.version);
            out.push(self.features as u8);
            if self.version >= 5 {
                out.push((self.features >> 8) as u8);
            }
        }
        if self.has(BlockMapFeatures::MULTIPLE_RANGES) {
            put_uleb128(out, self.ranges.len() as u64);
        }
        for (base, blocks) in &self.ranges {
            out.extend(base.to_le_bytes());
            put_uleb128(out, blocks.len() as u64);
            if self.has(BlockMapFeatures::OMITTED_ENTRIES) {
                continue;
            }
            let mut end = 0;
            for block in blocks {
                if self.version >= 2 {
                    put_uleb128(out, block.id.into());
                }
                let from = if self.version == 0 { end } else { 0 };
                put_uleb128(out, u64::from(from + block.gap));
                let mut calls = 0;
                if self.has(BlockMapFeatures::CALLSITE_ENDS) {
                    put_uleb128(out, block.callsites.len() as u64);
                    for &callsite in &block.callsites {
                        put_uleb128(out, callsite.into());
                        calls += callsite;
                    }
                }
                put_uleb128(out, block.rest.into());
                put_uleb128(out, block.flags.into());
                if self.has(BlockMapFeatures::BLOCK_HASH) {
                    out.extend(block.hash.to_le_bytes());
                }
                end += block.gap + calls + block.rest;
            }
        }
        if self.has(BlockMapFeatures::FUNCTION_ENTRY_COUNT) {
            put_uleb128(out, self.entry_count);
        }
        let has_frequency = self.has(BlockMapFeatures::BLOCK_FREQUENCY);
        let has_successors = self.has(BlockMapFeatures::BRANCH_PROBABILITY);
        let is_post_link = self.has(BlockMapFeatures::POST_LINK_PROFILE);
        for block in (self.blocks()).filter(|_| has_frequency || has_successors) {
            if has_frequency {
                put_uleb128(out, block.frequency);
            }
            if is_post_link {
                put_uleb128(out, block.post_link.into());
            }
            if has_successors {
                put_uleb128(out, block.successors.len() as u64);
                for &(id, probability, post_link) in &block.successors {
                    put_uleb128(out, id.into());
                    put_uleb128(out, probability.into());
                    if is_post_link {
                        put_uleb128(out, post_link.into());
                    }
                }
            }
        }
    }

    /// Checks that what was read is what was written.
    fn check(&self, read: &FunctionBlocks) {
        assert_eq!(
            (read.version, read.features.0),
            (self.version, self.features)
        );
        assert_eq!(read.ranges().len(), self.ranges.len());
        let is_listed = !self.has(BlockMapFeatures::OMITTED_ENTRIES);
        for (range, (base, blocks)) in read.ranges().iter().zip(&self.ranges) {
            assert_eq!(
                (range.base.0, range.block_count as usize),
                (*base, blocks.len())
            );
            let listed = if is_listed { &blocks[..] } else { &[] };
            assert_eq!(read.blocks(range).len(), listed.len());
            let mut end = 0;
            let mut callsite_ends = read.callsite_ends(range);
            for (index, (found, block)) in read.blocks(range).iter().zip(listed).enumerate() {
                let mut calls = 0;
                let mut ends = Vec::new();
                if self.has(BlockMapFeatures::CALLSITE_ENDS) {
                    for callsite in &block.callsites {
                        calls += callsite;
                        ends.push(calls);
                    }
                }
                assert_eq!(callsite_ends.next().unwrap(), ends);
                let id = if self.version >= 2 {
                    block.id
                } else {
                    index as u32
                };
                let size = calls + block.rest;
                assert_eq!(
                    (found.id, found.offset, found.size),
                    (id, end + block.gap, size)
                );
                assert_eq!(found.flags.0, block.flags);
                let hash = self.has(BlockMapFeatures::BLOCK_HASH).then_some(block.hash);
                assert_eq!(read.hashes(range).get(index).copied(), hash);
                end += block.gap + size;
            }
        }
        let entry_count = self.has(BlockMapFeatures::FUNCTION_ENTRY_COUNT);
        assert_eq!(read.entry_count, entry_count.then_some(self.entry_count));
        let has_frequency = self.has(BlockMapFeatures::BLOCK_FREQUENCY);
        let has_successors = self.has(BlockMapFeatures::BRANCH_PROBABILITY);
        let is_post_link = self.has(BlockMapFeatures::POST_LINK_PROFILE);
        let profiled = if has_frequency || has_successors {
            self.blocks().count()
        } else {
            0
        };
        assert_eq!(read.profiles().len(), profiled);
        for ((profile, successors), block) in read.profiles().zip(self.blocks()) {
            assert_eq!(profile.frequency, has_frequency.then_some(block.frequency));
            assert_eq!(
                profile.post_link_frequency,
                is_post_link.then_some(block.post_link)
            );
            let found: Vec<_> = (successors.iter())
                .map(|s| (s.id, s.probability, s.post_link_frequency))
                .collect();
            let expected: Vec<_> = (block.successors.iter())
                .filter(|_| has_successors)
                .map(|&(id, probability, post_link)| {
                    (id, probability, is_post_link.then_some(post_link))
                })
                .collect();
            assert_eq!(found, expected);
        }
    }
}

fn block() -> impl Strategy<Value = Written> {
    (
        (
            any::<u32>(),
            0u32..300,
            prop::collection::vec(1u32..200, 0..4),
        ),
        (0u32..300, 0u8..32, any::<u64>(), any::<u64>(), any::<u32>()),
        prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 0..4),
    )
        .prop_map(
            |((id, gap, callsites), (rest, flags, hash, frequency, post_link), successors)| {
                Written {
                    id,
                    gap,
                    callsites,
                    rest,
                    flags,
                    hash,
                    frequency,
                    post_link,
                    successors,
                }
            },
        )
}

fn function() -> impl Strategy<Value = WrittenFunction> {
    let ranges = prop::collection::vec(
        (0x1000u64..0x8000, prop::collection::vec(block(), 0..6)),
        1..4,
    );
    (0u8..=5, any::<u16>(), any::<u64>(), ranges).prop_map(
        |(version, features, entry_count, mut ranges)| {
            let known = [0, 0, 0x1f, 0x3f, 0x7f, 0xff][usize::from(version)];
            let features = features & known;
            if features & BlockMapFeatures::MULTIPLE_RANGES.0 == 0 {
                ranges.truncate(1);
            }
            WrittenFunction {
                version,
                features,
                entry_count,
                ranges,
            }
        },
    )
}

fn section(data: &[u8], is_old: bool) -> BlockMapSection<'_> {
    let raw = RawSection {
        name: ".llvm_bb_addr_map",
        address: LinkAddr(0),
        data,
        encoding: Encoding::default(),
    };
    BlockMapSection { raw, is_old }
}

fn decode(data: &[u8], is_old: bool) -> Result<BlockMap, TableError> {
    BlockMap::decode(
        &[section(data, is_old)],
        &[TEXT..TEXT_END],
        Path::new("the-file"),
    )
}

proptest! {
    /// Check that every version and every set of features is read as it was written, several in
    /// one section.
    #[test]
    fn what_is_written_is_read_back(
        functions in prop::collection::vec(function(), 0..6),
        is_old in any::<bool>(),
    ) {
        let mut functions = functions;
        if is_old {
            functions.retain(|function| function.version == 0);
        }
        let mut bytes = Vec::new();
        for function in &functions {
            function.write(&mut bytes, is_old);
        }
        let mut expected = functions.iter();
        read_section(&section(&bytes, is_old), Path::new("the-file"), |read| {
            expected.next().unwrap().check(read);
            Ok(())
        }).unwrap();
        prop_assert_eq!(expected.len(), 0);
        let map = decode(&bytes, is_old).unwrap();
        let [summary] = map.sections() else { panic!() };
        prop_assert_eq!(summary.functions, functions.len());
        prop_assert_eq!(summary.blocks, functions.iter().map(|f| f.blocks().count()).sum::<usize>());
        prop_assert_eq!(summary.discarded, functions.iter().flat_map(|function| {
            let is_listed = !function.has(BlockMapFeatures::OMITTED_ENTRIES);
            function.ranges.iter().filter(move |_| is_listed).flat_map(move |(base, blocks)| {
                let mut at = *base;
                blocks.iter().filter(move |block| {
                    let calls: u32 = block.callsites.iter().sum();
                    let calls = if function.has(BlockMapFeatures::CALLSITE_ENDS) { calls } else { 0 };
                    at += u64::from(block.gap + calls + block.rest);
                    calls + block.rest > 0 && at > TEXT_END.0
                })
            })
        }).count());
    }

    /// Check that whatever the bytes are, the answer is an error or a map that is sorted and
    /// finds what it lists, and that takes no more memory than 16 times the section.
    #[test]
    fn any_bytes_give_a_map_or_an_error(
        functions in prop::collection::vec(function(), 0..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..30),
        is_old in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        for function in &functions {
            function.write(&mut bytes, is_old);
        }
        bytes.extend(noise);
        for (at, value) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        match decode(&bytes, is_old) {
            Ok(map) => {
                let mut end = TEXT;
                for block in map.blocks() {
                    prop_assert!(block.start >= end && block.end > block.start && block.end <= TEXT_END);
                    prop_assert_eq!(map.block_at(block.start), Some(block));
                    prop_assert_eq!(map.block_at(block.end.offset(-1)), Some(block));
                    let near = map.around(block.start, 3);
                    prop_assert!(near.contains(&block) && near.len() <= 3);
                    prop_assert!(near.iter().all(|other| other.function == block.function));
                    end = block.end;
                }
                prop_assert!(map.memory_size() <= 16 * bytes.len());
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("the-file: section .llvm_bb_addr_map at offset 0x"), "{}", message);
                prop_assert!(message.ends_with("or update gwp-race"), "{}", message);
            }
        }
    }
}

/// Check that each kind of damage is named with its place.
#[test]
fn errors_name_what_is_wrong_and_where() {
    let base = TEXT.0.to_le_bytes();
    let entry = |head: &[u8], tail: &[u8]| [head, &base[..], tail].concat();
    for (bytes, offset, what) in [
        (
            vec![6, 0],
            0,
            "it has version 6 from here on, and the newest that is known is 5",
        ),
        (vec![2, 0x20], 1, "features that its version does not know"),
        (vec![1, 1], 1, "features that its version does not know"),
        (vec![5, 0, 1], 1, "features that its version does not know"),
        (vec![5, 0], 1, "within a number"),
        (vec![2, 8, 0], 2, "no range"),
        (vec![2, 8, 9], 3, "fewer bytes than this count needs"),
        (entry(&[2, 0], &[]), 10, "within a ULEB128 number"),
        (
            entry(&[2, 0], &[2, 0, 0, 1, 1]),
            11,
            "fewer bytes than this count needs",
        ),
        (
            entry(&[2, 0], &[1, 0, 0, 1, 0x20]),
            14,
            "flags that are not known",
        ),
        (
            entry(&[2, 0], &[1, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 0]),
            12,
            "more than 32 bits",
        ),
        (
            entry(&[2, 0], &[1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0]),
            19,
            "more than 4 GiB",
        ),
        (
            entry(&[4, 0x40], &[1, 0, 0, 1, 0, 7]),
            15,
            "within a number",
        ),
    ] {
        let message = decode(&bytes, false).err().expect(what).to_string();
        let place = format!("at offset {offset:#x}: ");
        assert!(
            message.contains(&place) && message.contains(what),
            "{what}: {message}"
        );
    }
}

/// Check that functions which a linker discarded or folded are neither found nor in the way.
#[test]
fn discarded_and_folded_functions() {
    let function = |base: u64, sizes: &[u32]| WrittenFunction {
        version: 2,
        features: 0,
        entry_count: 0,
        ranges: vec![(
            base,
            (sizes.iter())
                .map(|&rest| Written {
                    id: rest,
                    gap: 0,
                    callsites: Vec::new(),
                    rest,
                    flags: 1,
                    hash: 0,
                    frequency: 0,
                    post_link: 0,
                    successors: Vec::new(),
                })
                .collect(),
        )],
    };
    let mut bytes = Vec::new();
    for written in [
        function(0, &[4, 5]),
        function(0x2000, &[16, 0, 32]),
        function(0x1000, &[8]),
        function(0x2000, &[16, 0, 32]),
    ] {
        written.write(&mut bytes, false);
    }
    let map = decode(&bytes, false).unwrap();
    let [summary] = map.sections() else { panic!() };
    assert_eq!(
        (summary.functions, summary.blocks, summary.discarded),
        (4, 9, 2)
    );
    assert_eq!(summary.versions, [2]);
    let blocks: Vec<_> = map
        .blocks()
        .map(|block| (block.start.0, block.end.0, block.id))
        .collect();
    assert_eq!(
        blocks,
        [
            (0x1000, 0x1008, 8),
            (0x2000, 0x2010, 16),
            (0x2010, 0x2030, 32)
        ]
    );
    assert_eq!(map.block_at(LinkAddr(0x2030)), None);
    assert_eq!(map.block_at(LinkAddr(0xfff)), None);
    let block = map.block_at(LinkAddr(0x202f)).unwrap();
    assert_eq!(
        (block.function, block.flags),
        (LinkAddr(0x2000), BlockFlags::RETURN)
    );
}

const SOURCE: &str = "#include <stdio.h>
    __attribute__((noinline)) int branches(int a, int b) {
        int sum = 0;
        for (int i = 0; i < a; i++) { if (i % 3 == b) puts(\"x\"); else sum += i * b; }
        switch (b) { case 1: return sum; case 2: return a; case 9: putchar(a); break; default: sum--; }
        return sum + a; }
    __attribute__((noinline)) int straight(int a) { return a + 1; }
    int main(int n, char **v) { return branches(n, 1) + straight(n); }";

/// Check, on real programs, that the blocks are whole instructions, that those of a function
/// fill it, and that a branch ends a block.
#[test]
fn blocks_of_real_programs_begin_and_end_with_instructions() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("a.c"), dir.path().join("a"));
    std::fs::write(&input, SOURCE).unwrap();
    for (compiler, flag) in [
        ("clang-16", "-fbasic-block-sections=labels"),
        ("clang-22", "-fbasic-block-address-map"),
    ] {
        for flags in [
            &["-O0"][..],
            &["-O2"],
            &["-O2", "-static"],
            &[
                "-Os",
                "-ffunction-sections",
                "-Wl,--gc-sections",
                "-fuse-ld=lld-22",
            ],
        ] {
            let mut command = Command::new(compiler);
            let status = command
                .arg(flag)
                .args(flags)
                .arg(&input)
                .arg("-o")
                .arg(&output)
                .status();
            assert!(
                status
                    .expect("compilers are needed: cargo xtask setup")
                    .success()
            );
            let image = Image::open(&output).unwrap();
            let map = BlockMap::load(&image).unwrap();
            assert_eq!(
                BlockMap::summaries(&image, &mut |error| panic!("{error}")),
                map.sections()
            );
            let [summary] = map.sections() else {
                panic!("{compiler} {flags:?}")
            };
            assert_eq!(
                (summary.functions, summary.discarded),
                (3, 0),
                "{compiler} {flags:?}"
            );
            for name in ["branches", "straight", "main"] {
                let symbols = image.functions();
                let symbol = symbols.iter().find(|symbol| symbol.name == name).unwrap();
                let code = image
                    .bytes_at(symbol.address, symbol.size as usize)
                    .unwrap();
                let mut blocks = 0;
                let mut open = None;
                for instruction in
                    Decoder::with_ip(64, code, symbol.address.0, DecoderOptions::NONE).iter()
                {
                    let what = format!("{compiler} {flags:?}: {name}: {instruction:?}");
                    let block = map.block_at(LinkAddr(instruction.ip()));
                    let Some(block) = block else {
                        // What stands between blocks is there to align the next.
                        assert_eq!(instruction.mnemonic(), iced_x86::Mnemonic::Nop, "{what}");
                        continue;
                    };
                    assert_eq!(block.function, symbol.address, "{what}");
                    assert!(instruction.next_ip() <= block.end.0, "{what}");
                    if open != Some(block) {
                        assert_eq!(instruction.ip(), block.start.0, "{what}");
                        blocks += 1;
                    }
                    let is_last = instruction.next_ip() == block.end.0;
                    if matches!(
                        instruction.flow_control(),
                        FlowControl::UnconditionalBranch | FlowControl::Return
                    ) {
                        assert!(is_last, "{what}");
                    }
                    if instruction.flow_control() == FlowControl::Return {
                        assert!(block.flags.contains(BlockFlags::RETURN), "{what}");
                    }
                    open = (!is_last).then_some(block);
                }
                assert_eq!(open, None);
                assert!(blocks > 4 || name != "branches", "{blocks}");
            }
        }
    }
}

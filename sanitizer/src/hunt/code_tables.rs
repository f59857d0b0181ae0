//! What compilers tell of a module's code besides the detector's metadata, where it is there: basic blocks
//! (`SHT_LLVM_BB_ADDR_MAP`) and live values (`.llvm_stackmaps`). A reader is asked for it when a hit is judged, and tells of the
//! code around the addresses that matter.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    addr::LinkAddr,
    image::Machine,
    insn::Regs,
    pcmeta::{BlockAt, LiveValue, StackMapRecord, dwarf_register_name},
    report::finding::LiveFact,
    symbols::CodeFacts,
};

/// Bytes of a value that a report shows.
const SHOWN: usize = 8;
/// Of one module so much is kept: addresses that were asked about, and blocks. More, and all is asked anew for what is judged next.
const MOST_ASKED: usize = 64;
const MOST_BLOCKS: usize = 1 << 13;
/// So much more at most where it is about what is judged together.
const MOST_TOGETHER: usize = 4;

/// What is known of the tables of a module.
#[derive(Clone, Debug, Default)]
pub struct CodeTables {
    asked: BTreeSet<LinkAddr>,
    blocks: BTreeMap<LinkAddr, BlockAt>,
    records: BTreeMap<LinkAddr, Vec<StackMapRecord>>,
    /// Its file has none.
    are_missing: bool,
}

impl CodeTables {
    /// Whether nothing is known of them.
    #[must_use]
    pub fn are_unknown(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether so much is known of them that it is to be forgotten, which is for whoever begins to ask: what is judged together is kept together.
    #[must_use]
    pub fn are_full(&self) -> bool {
        self.asked.len() >= MOST_ASKED || self.blocks.len() >= MOST_BLOCKS
    }

    /// Whether what they tell of the code around an address is still to be asked.
    #[must_use]
    pub fn want(&self, pc: LinkAddr) -> bool {
        !self.are_missing && !self.asked.contains(&pc)
    }

    /// Takes note of what they tell of the code around an address, where there is room; nothing where the file has none.
    pub fn add(&mut self, pc: LinkAddr, facts: Option<CodeFacts>) {
        let Some(facts) = facts else {
            self.are_missing = true;
            return;
        };
        let blocks = self.blocks.len() + facts.blocks.len();
        if self.asked.len() >= MOST_TOGETHER * MOST_ASKED || blocks > MOST_TOGETHER * MOST_BLOCKS {
            return;
        }
        self.asked.insert(pc);
        let blocks = facts.blocks.into_iter();
        self.blocks.extend(blocks.map(|block| (block.start, block)));
        if !facts.records.is_empty() {
            self.records.insert(pc, facts.records);
        }
    }

    /// The basic block around an address.
    #[must_use]
    pub fn block_at(&self, pc: LinkAddr) -> Option<BlockAt> {
        let (_, block) = self.blocks.range(..=pc).next_back()?;
        (pc < block.end).then_some(*block)
    }

    /// The live values of a thread that stands at an address with these registers and these bytes from
    /// `regs.rsp` up.
    #[must_use]
    pub fn live_at(&self, pc: LinkAddr, regs: &Regs, stack: &[u8]) -> Vec<LiveFact> {
        let records = self.records.get(&pc).map_or(&[][..], Vec::as_slice);
        records
            .iter()
            .flat_map(|record| values(record, regs, stack))
            .collect()
    }
}

fn values(record: &StackMapRecord, regs: &Regs, stack: &[u8]) -> Vec<LiveFact> {
    let fact = |location: &crate::pcmeta::Location| {
        let name = |register| dwarf_register_name(Machine::X86_64, register);
        let at = |register, offset: i32| {
            Some(general_register(regs, register)?.wrapping_add_signed(offset.into()))
        };
        let size = location.size;
        let (place, value) = match location.value {
            LiveValue::Register { register, offset } => {
                let whole = general_register(regs, register);
                let value = whole.and_then(|value| value.checked_shr(offset.cast_unsigned()));
                (name(register), value.map(|value| cut(value, size)))
            }
            LiveValue::Direct { register, offset } => (
                format!("{}{offset:+}", name(register)),
                at(register, offset),
            ),
            LiveValue::Indirect { register, offset } => (
                format!("[{}{offset:+}]", name(register)),
                at(register, offset).and_then(|address| read((regs.rsp, stack), address, size)),
            ),
            LiveValue::Constant(value) => (
                "constant".to_owned(),
                Some(cut(i64::from(value).cast_unsigned(), size)),
            ),
            LiveValue::LargeConstant { value, .. } => ("constant".to_owned(), Some(value)),
        };
        LiveFact {
            record: record.id,
            place,
            size,
            value,
        }
    };
    record.locations.iter().map(fact).collect()
}

/// The lowest bytes of a value.
fn cut(value: u64, size: u16) -> u64 {
    match size {
        1..8 => value & ((1 << (8 * size)) - 1),
        _ => value,
    }
}

fn read((base, stack): (u64, &[u8]), address: u64, size: u16) -> Option<u64> {
    let start = usize::try_from(address.checked_sub(base)?).ok()?;
    let size = usize::from(size);
    if size > SHOWN {
        return None;
    }
    let bytes = stack.get(start..start.checked_add(size)?)?;
    let mut word = [0; SHOWN];
    word.get_mut(..size)?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// A register by its DWARF number.
fn general_register(regs: &Regs, number: u16) -> Option<u64> {
    let registers = regs.in_dwarf_order();
    registers.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcmeta::{BlockFlags, Location};

    /// Check that what was told is found, that nothing is asked twice, nor at all where there are no tables, and that so much is kept and no more.
    #[test]
    fn so_much_is_kept() {
        let facts = |at: u64, count: u64| CodeFacts {
            blocks: (at..at + count)
                .map(|start| BlockAt {
                    start: LinkAddr(start * 4),
                    end: LinkAddr(start * 4 + 2),
                    id: 0,
                    flags: BlockFlags::default(),
                    function: LinkAddr(at * 4),
                })
                .collect(),
            records: Vec::new(),
        };
        let pc = |number: u64| LinkAddr(number * 4);
        let mut tables = CodeTables::default();
        assert!(tables.are_unknown() && tables.want(pc(1)));
        tables.add(pc(1), Some(facts(1, 10)));
        assert!(!tables.are_unknown() && !tables.want(pc(1)) && tables.want(pc(2)));
        assert_eq!(tables.block_at(LinkAddr(9)).unwrap().start, pc(2));
        assert_eq!(tables.block_at(LinkAddr(10)), None);
        assert_eq!(
            (tables.block_at(LinkAddr(3)), tables.block_at(pc(11))),
            (None, None)
        );
        for number in 2..2 * MOST_ASKED as u64 {
            assert_eq!(tables.are_full(), number > MOST_ASKED as u64);
            tables.add(pc(number), Some(facts(1000 + number, 1)));
            assert!(!tables.want(pc(number)) && !tables.want(pc(1)));
            assert!(tables.block_at(pc(1000 + number)).is_some());
        }
        for number in 2..1000 {
            tables.add(pc(number), Some(facts(1000 * number, 1)));
        }
        assert_eq!(tables.asked.len(), MOST_TOGETHER * MOST_ASKED);
        tables = CodeTables::default();
        for number in 0..20 {
            let blocks = MOST_BLOCKS as u64 / 4;
            tables.add(pc(number), Some(facts(10_000 * number, blocks)));
            assert_eq!(tables.are_full(), number >= 3);
        }
        assert_eq!(tables.blocks.len(), MOST_TOGETHER * MOST_BLOCKS);
        tables.add(pc(1), None);
        assert!(!tables.want(pc(1)) && !tables.want(pc(500)));
    }

    /// Check each form that a live value can have, and that what was not copied is not made up.
    #[test]
    fn forms() {
        let regs = Regs {
            rbp: 0x7010,
            rsp: 0x7000,
            r15: 0x1234_5678_9abc_def0,
            ..Regs::default()
        };
        let stack: Vec<u8> = (0..32).collect();
        let value = |size, value| {
            let record = StackMapRecord {
                id: 7,
                function: None,
                offset: 0,
                flags: 0,
                locations: vec![Location { size, value }],
                live_outs: Vec::new(),
            };
            let facts = values(&record, &regs, &stack);
            (facts[0].place.clone(), facts[0].value)
        };
        let register = |offset| LiveValue::Register {
            register: 15,
            offset,
        };
        assert_eq!(value(4, register(0)), ("r15".into(), Some(0x9abc_def0)));
        assert_eq!(value(1, register(8)), ("r15".into(), Some(0xde)));
        assert_eq!(value(1, register(64)), ("r15".into(), None));
        let vector = LiveValue::Register {
            register: 17,
            offset: 0,
        };
        assert_eq!(value(8, vector), ("xmm0".into(), None));
        let direct = LiveValue::Direct {
            register: 6,
            offset: -8,
        };
        assert_eq!(value(8, direct), ("rbp-8".into(), Some(0x7008)));
        let indirect = |offset| LiveValue::Indirect {
            register: 6,
            offset,
        };
        assert_eq!(value(2, indirect(-8)), ("[rbp-8]".into(), Some(0x0908)));
        for (size, offset) in [(8, 9), (8, -17), (16, -16), (8, i32::MAX)] {
            assert_eq!(value(size, indirect(offset)).1, None, "{size} {offset}");
        }
        assert_eq!(
            value(4, LiveValue::Constant(-1)),
            ("constant".into(), Some(0xffff_ffff))
        );
        let large = LiveValue::LargeConstant {
            index: 0,
            value: 1 << 40,
        };
        assert_eq!(value(8, large), ("constant".into(), Some(1 << 40)));
    }
}

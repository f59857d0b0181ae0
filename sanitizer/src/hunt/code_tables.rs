//! What compilers tell of a module's code besides the detector's metadata, where it is there: basic blocks
//! (`SHT_LLVM_BB_ADDR_MAP`) and live values (`.llvm_stackmaps`). Read by the loader when a hit is first judged.

use std::sync::Arc;

use crate::{
    addr::LinkAddr,
    image::{Image, Machine},
    insn::Regs,
    pcmeta::{
        BlockAt, BlockMap, LiveValue, OnError, StackMapRecord, StackMaps, dwarf_register_name,
    },
    report::finding::LiveFact,
    symbols::{ModuleInfo, debug_image},
};

/// They are read between two hits, and nobody is stalled meanwhile: larger files than this with one of those sections would take
/// too long.
const LARGEST_FILE: usize = 64 << 20;
/// Bytes of a value that a report shows.
const SHOWN: usize = 8;

/// The tables of a module; empty where it has none, or none that can be read.
#[derive(Default)]
pub struct CodeTables {
    blocks: BlockMap,
    live: StackMaps,
}

impl CodeTables {
    /// Reads those of a module's file; the blocks out of its debug file, where they were stripped.
    #[must_use]
    pub fn of(image: &Image, module: &ModuleInfo) -> Self {
        Self::read(image, module, &mut |_| {})
    }

    /// What of a module's tables reports will not use, and why, in a line each.
    #[must_use]
    pub fn left_out(image: &Image, module: &ModuleInfo) -> Vec<String> {
        let mut lines = Vec::new();
        Self::read(image, module, &mut |why| lines.push(why));
        lines
    }

    fn read(image: &Image, module: &ModuleInfo, on_left_out: &mut dyn FnMut(String)) -> Self {
        let size = image.data().len();
        if size > LARGEST_FILE {
            if BlockMap::is_in(image) || StackMaps::is_in(image) {
                on_left_out(format!(
                    "{}: it has {size} bytes, and in files of more than {LARGEST_FILE} basic blocks \
                     and live values are not looked for",
                    image.name().display()
                ));
            }
            return Self::default();
        }
        let on_error: OnError<'_> = &mut |error| on_left_out(error.to_string());
        // What is not loaded is stripped from a program, and stays in its debug file.
        let debug = match BlockMap::is_in(image) {
            true => None,
            false => debug_image(module, &Arc::default(), LARGEST_FILE as u64),
        };
        let blocks = debug.as_ref().unwrap_or(image);
        Self {
            blocks: BlockMap::load_readable(blocks, &image.text_ranges(), on_error),
            live: StackMaps::load_readable(image, on_error),
        }
    }

    /// The basic block around an address.
    #[must_use]
    pub fn block_at(&self, pc: LinkAddr) -> Option<BlockAt> {
        self.blocks.block_at(pc)
    }

    /// The live values of a thread that stands at an address with these registers and these bytes from
    /// `regs.rsp` up.
    #[must_use]
    pub fn live_at(&self, pc: LinkAddr, regs: &Regs, stack: &[u8]) -> Vec<LiveFact> {
        let records = self.live.records_at(pc);
        records
            .flat_map(|record| values(&record, regs, stack))
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
    use crate::pcmeta::Location;

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

//! Debug information that no compiler makes: questions about types end, and are answered with "not known".

use std::sync::Arc;

use gimli::write::{
    Address, AttributeValue, DwarfUnit, EndianVec, Expression, Sections, UnitEntryId,
};
use gimli::{Dwarf, LittleEndian, LocationLists, SectionId, X86_64, constants as dw};

use super::super::layout::held_at;
use super::super::reader::Reader;
use super::super::types::{FunctionResult, result_at};
use super::super::{Held, StackSnapshot, Stopped};
use crate::insn::Regs;

const PC: u64 = 0x1000;
const OBJECT: u64 = 0x8000;

/// A unit with types, and a function that takes a pointer to one of them and returns one.
struct Crafted {
    dwarf: DwarfUnit,
    number: UnitEntryId,
}

impl Crafted {
    fn new() -> Self {
        let mut dwarf = DwarfUnit::new(gimli::Encoding {
            format: gimli::Format::Dwarf32,
            version: 5,
            address_size: 8,
        });
        let root = dwarf.unit.root();
        let language = AttributeValue::Language(dw::DW_LANG_C_plus_plus_14);
        dwarf.unit.get_mut(root).set(dw::DW_AT_language, language);
        let number = dwarf.unit.add(root, dw::DW_TAG_base_type);
        let mut crafted = Self { dwarf, number };
        crafted.set(number, dw::DW_AT_byte_size, AttributeValue::Udata(4));
        crafted
    }

    fn set(&mut self, entry: UnitEntryId, name: dw::DwAt, value: AttributeValue) {
        self.dwarf.unit.get_mut(entry).set(name, value);
    }

    fn add(&mut self, tag: dw::DwTag, size: u64) -> UnitEntryId {
        let root = self.dwarf.unit.root();
        let entry = self.dwarf.unit.add(root, tag);
        self.set(entry, dw::DW_AT_byte_size, AttributeValue::Udata(size));
        entry
    }

    fn member(&mut self, of: UnitEntryId, tag: dw::DwTag, ty: UnitEntryId, at: u64) -> UnitEntryId {
        let member = self.dwarf.unit.add(of, tag);
        self.set(member, dw::DW_AT_type, AttributeValue::UnitRef(ty));
        let place = AttributeValue::Udata(at);
        self.set(member, dw::DW_AT_data_member_location, place);
        member
    }

    fn written(mut self, ty: UnitEntryId) -> Dwarf<Reader> {
        let root = self.dwarf.unit.root();
        let pointer = self.add(dw::DW_TAG_pointer_type, 8);
        self.set(pointer, dw::DW_AT_type, AttributeValue::UnitRef(ty));
        let function = self.dwarf.unit.add(root, dw::DW_TAG_subprogram);
        let low = AttributeValue::Address(Address::Constant(PC));
        self.set(function, dw::DW_AT_low_pc, low);
        self.set(function, dw::DW_AT_high_pc, AttributeValue::Udata(16));
        self.set(function, dw::DW_AT_type, AttributeValue::UnitRef(ty));
        let argument = self.dwarf.unit.add(function, dw::DW_TAG_formal_parameter);
        let mut place = Expression::new();
        place.op_reg(X86_64::RDI);
        self.set(argument, dw::DW_AT_location, AttributeValue::Exprloc(place));
        self.set(argument, dw::DW_AT_type, AttributeValue::UnitRef(pointer));
        let mut sections = Sections::new(EndianVec::new(LittleEndian));
        self.dwarf.write(&mut sections).expect("it is written");
        let section = |id: SectionId| {
            let bytes = sections.get(id).map_or(&[][..], EndianVec::slice);
            Ok::<_, gimli::Error>(Reader::of_bytes(Arc::from(bytes)))
        };
        Dwarf::load(section).expect("it is read")
    }

    /// What is said of a type's first bytes, and of its values as results.
    fn asked(self, ty: UnitEntryId) -> (Held, Option<FunctionResult>) {
        let dwarf = self.written(ty);
        let header = dwarf.units().next().expect("it parses").expect("one unit");
        let unit = dwarf.unit(header).expect("it parses");
        let unit = unit.unit_ref(&dwarf);
        let regs = Regs {
            rdi: OBJECT,
            ..Regs::default()
        };
        let stopped = Stopped {
            pc: PC,
            regs: &regs,

            stack: &StackSnapshot::default(),
        };
        let mut entries = unit.entries();
        let mut function = None;
        while let Some(entry) = entries.next_dfs().expect("it parses") {
            if entry.tag() == dw::DW_TAG_subprogram {
                function = Some(entry.offset());
            }
        }
        let none = Reader::empty_one;
        let locations = LocationLists::new(none().into(), none().into());
        let held = held_at(&unit, function, &locations, stopped, 0, (OBJECT, 8));
        (held, result_at(&unit, function))
    }
}

const UNKNOWN: Held = Held {
    atomic: false,
    member: false,
    padding: false,
    unknown: true,
    keeps_padding: false,
};

/// Check what is said of a type that is as types are.
#[test]
fn plain() {
    let mut crafted = Crafted::new();
    let number = crafted.number;
    let class = crafted.add(dw::DW_TAG_structure_type, 8);
    crafted.member(class, dw::DW_TAG_member, number, 4);
    let (held, result) = crafted.asked(class);
    assert!(held.member && held.padding && !held.unknown, "{held:?}");
    assert_eq!(result.map(|result| result.general), Some(0xf0));
}

/// Check types of two members each of another type of two members, and so on: there are too many to look at.
#[test]
fn too_many() {
    for tag in [dw::DW_TAG_member, dw::DW_TAG_inheritance] {
        for members in [2, 8, 64] {
            let mut crafted = Crafted::new();
            let mut inner = crafted.number;
            for _ in 0..14 {
                let outer = crafted.add(dw::DW_TAG_union_type, 8);
                for _ in 0..members {
                    crafted.member(outer, tag, inner, 0);
                }
                inner = outer;
            }
            let (held, result) = crafted.asked(inner);
            if members == 2 {
                // The first four bytes and the padding behind them.
                assert!(held.member || held.unknown, "{held:?}");
            } else {
                assert!(held.unknown, "{held:?} of {members}");
                assert_eq!(result, None, "of {members}");
            }
        }
    }
}

/// Check types that are a part of themselves, by way of members, bases, arrays and names.
#[test]
fn circles() {
    for tag in [
        dw::DW_TAG_structure_type,
        dw::DW_TAG_union_type,
        dw::DW_TAG_class_type,
    ] {
        for part in [dw::DW_TAG_member, dw::DW_TAG_inheritance] {
            let mut crafted = Crafted::new();
            let class = crafted.add(tag, 8);
            crafted.member(class, part, class, 0);
            crafted.member(class, part, class, 0);
            assert_eq!(crafted.asked(class), (UNKNOWN, None));
        }
    }
    for tag in [
        dw::DW_TAG_array_type,
        dw::DW_TAG_typedef,
        dw::DW_TAG_const_type,
    ] {
        let mut crafted = Crafted::new();
        let root = crafted.dwarf.unit.root();
        let ty = crafted.dwarf.unit.add(root, tag);
        crafted.set(ty, dw::DW_AT_type, AttributeValue::UnitRef(ty));
        let (held, result) = crafted.asked(ty);
        assert!(!held.member && !held.atomic && !held.padding, "{held:?}");
        assert_eq!(result, None);
    }
}

/// Check members so far away that their places are no numbers any more, and sizes that are none.
#[test]
fn far_away() {
    let far = [u64::MAX, u64::MAX - 4, 1 << 63, 1 << 32, 16, 15];
    for outer_at in far {
        for inner_at in far {
            let mut crafted = Crafted::new();
            let number = crafted.number;
            let inner = crafted.add(dw::DW_TAG_structure_type, u64::MAX);
            crafted.member(inner, dw::DW_TAG_member, number, inner_at);
            let outer = crafted.add(dw::DW_TAG_structure_type, 16);
            crafted.member(outer, dw::DW_TAG_member, inner, outer_at);
            let bits = crafted.member(outer, dw::DW_TAG_member, number, 0);
            crafted.set(bits, dw::DW_AT_bit_size, AttributeValue::Udata(u64::MAX));
            let first = AttributeValue::Udata(outer_at);
            crafted.set(bits, dw::DW_AT_data_bit_offset, first);
            let (_, result) = crafted.asked(outer);
            assert_eq!(result, None);
        }
    }
    let mut crafted = Crafted::new();
    let root = crafted.dwarf.unit.root();
    let (number, array) = (
        crafted.number,
        crafted.dwarf.unit.add(root, dw::DW_TAG_array_type),
    );
    crafted.set(array, dw::DW_AT_type, AttributeValue::UnitRef(number));
    for count in [u64::MAX, u64::MAX, 0] {
        let dimension = crafted.dwarf.unit.add(array, dw::DW_TAG_subrange_type);
        crafted.set(dimension, dw::DW_AT_count, AttributeValue::Udata(count));
    }
    let (held, result) = crafted.asked(array);
    assert_eq!((held, result), (Held::default(), None));
}

//! Stack maps of all versions, written here and read back, and of bytes that no compiler would
//! write.

use proptest::prelude::*;

use super::*;
use crate::image::Encoding;

#[derive(Clone, Debug)]
struct Written {
    version: u8,
    /// Address, stack size, and the records: ID, offset, locations and live-outs.
    functions: Vec<(u64, u64, Vec<WrittenRecord>)>,
    constants: Vec<u64>,
}

type WrittenRecord = (u64, u32, Vec<(u8, u16, u16, i32)>, Vec<(u16, u8)>);

impl Written {
    fn records(&self) -> impl Iterator<Item = (u64, &WrittenRecord)> {
        (self.functions.iter())
            .flat_map(|(address, _, records)| records.iter().map(|record| (*address, record)))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.version, 0, 0, 0]);
        for count in [
            self.functions.len(),
            self.constants.len(),
            self.records().count(),
        ] {
            out.extend((count as u32).to_le_bytes());
        }
        for (address, stack_size, records) in &self.functions {
            out.extend(address.to_le_bytes());
            out.extend(stack_size.to_le_bytes());
            if self.version >= 2 {
                out.extend((records.len() as u64).to_le_bytes());
            }
        }
        for constant in &self.constants {
            out.extend(constant.to_le_bytes());
        }
        for (_, (id, offset, locations, live_outs)) in self.records() {
            out.extend(id.to_le_bytes());
            out.extend(offset.to_le_bytes());
            out.extend([0, 0]);
            out.extend((locations.len() as u16).to_le_bytes());
            for &(kind, size, register, number) in locations {
                if self.version >= 3 {
                    out.extend([kind, 0]);
                    out.extend(size.to_le_bytes());
                    out.extend(register.to_le_bytes());
                    out.extend([0, 0]);
                } else {
                    out.extend([kind, size as u8]);
                    out.extend(register.to_le_bytes());
                }
                out.extend(number.to_le_bytes());
            }
            if self.version >= 3 {
                out.resize(out.len().next_multiple_of(8), 0);
            }
            out.extend([0, 0]);
            out.extend((live_outs.len() as u16).to_le_bytes());
            for &(register, size) in live_outs {
                out.extend(register.to_le_bytes());
                out.extend([0, size]);
            }
            out.resize(out.len().next_multiple_of(8), 0);
        }
    }

    fn expected(&self, (function, record): (u64, &WrittenRecord)) -> StackMapRecord {
        let (id, offset, locations, live_outs) = record;
        let is_known = self.version >= 2
            || self.functions.len() == 1
            || self
                .functions
                .iter()
                .all(|(_, _, records)| records.len() == 1);
        StackMapRecord {
            id: *id,
            function: is_known.then_some(LinkAddr(function)),
            offset: *offset,
            flags: 0,
            locations: (locations.iter())
                .map(|&(kind, size, register, offset)| Location {
                    size: if self.version >= 3 {
                        size
                    } else {
                        u16::from(size as u8)
                    },
                    value: match kind {
                        1 => LiveValue::Register { register, offset },
                        2 => LiveValue::Direct { register, offset },
                        3 => LiveValue::Indirect { register, offset },
                        4 => LiveValue::Constant(offset),
                        _ => LiveValue::LargeConstant {
                            index: offset as u32,
                            value: self.constants[offset as usize],
                        },
                    },
                })
                .collect(),
            live_outs: (live_outs.iter())
                .map(|&(register, size)| LiveOut { register, size })
                .collect(),
        }
    }
}

fn record(constants: usize) -> impl Strategy<Value = WrittenRecord> {
    let location = (1u8..=5, any::<u16>(), any::<u16>(), any::<i32>()).prop_map(
        move |(kind, size, register, number)| match kind {
            5 if constants == 0 => (4, size, register, number),
            5 => (5, size, register, (number as u32 % constants as u32) as i32),
            _ => (kind, size, register, number),
        },
    );
    (
        any::<u64>(),
        any::<u32>(),
        prop::collection::vec(location, 0..6),
        prop::collection::vec((any::<u16>(), any::<u8>()), 0..5),
    )
}

fn map() -> impl Strategy<Value = Written> {
    (1u8..=3, prop::collection::vec(any::<u64>(), 0..4)).prop_flat_map(|(version, constants)| {
        let record = record(constants.len());
        let function = (
            any::<u32>().prop_map(u64::from),
            prop_oneof![Just(u64::MAX), 0u64..4096],
            prop::collection::vec(record, 1..4),
        );
        prop::collection::vec(function, 1..4).prop_map(move |functions| Written {
            version,
            functions,
            constants: constants.clone(),
        })
    })
}

fn decode(data: &[u8]) -> Result<StackMaps, TableError> {
    let section = RawSection {
        name: SECTION,
        address: LinkAddr(0),
        data,
        encoding: Encoding::default(),
    };
    StackMaps::decode(&[section], Path::new("the-file"))
}

proptest! {
    /// Check that maps of all versions, several in one section and with zeros between them, are
    /// read as they were written, and that each record is found by its PC.
    #[test]
    fn what_is_written_is_read_back(maps in prop::collection::vec((map(), 0usize..4), 0..4)) {
        let mut bytes = Vec::new();
        for (map, padding) in &maps {
            map.write(&mut bytes);
            bytes.resize(bytes.len() + padding * 8, 0);
        }
        let read = decode(&bytes).unwrap();
        prop_assert_eq!(read.maps().count(), maps.len());
        for (found, (written, _)) in read.maps().zip(&maps) {
            prop_assert_eq!(found.header.version, written.version);
            prop_assert!(found.constants().eq(written.constants.iter().copied()));
            let functions: Vec<_> = found.functions().collect();
            prop_assert_eq!(functions.len(), written.functions.len());
            for (function, (address, stack_size, records)) in functions.iter().zip(&written.functions) {
                prop_assert_eq!(function.address.0, *address);
                prop_assert_eq!(function.stack_size.unwrap_or(u64::MAX), *stack_size);
                prop_assert_eq!(function.record_count, (written.version >= 2).then_some(records.len() as u64));
            }
            prop_assert_eq!(found.header.records, written.records().count());
            for (found, record) in found.records().zip(written.records()) {
                let expected = written.expected(record);
                if let Some(pc) = expected.pc() {
                    prop_assert!(read.records_at(pc).any(|found| found == expected));
                    prop_assert!(read.records_at(pc).all(|found| found.pc() == Some(pc)));
                }
                prop_assert_eq!(found, expected);
            }
        }
        let known = maps.iter().flat_map(|(map, _)| map.records().filter(|r| map.expected(*r).function.is_some()));
        prop_assert_eq!(read.pcs().len(), known.count());
        prop_assert!(read.pcs().is_sorted());
    }

    /// Check that damaged maps give an error with its place, or maps whose records can all be read;
    /// never more memory than 16 times the section.
    #[test]
    fn any_bytes_give_maps_or_an_error(
        maps in prop::collection::vec(map(), 0..3),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut bytes = Vec::new();
        for map in &maps {
            map.write(&mut bytes);
        }
        bytes.extend(noise);
        for (at, value) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        bytes.truncate(cut.index(2 * bytes.len() + 1));
        match decode(&bytes) {
            Ok(read) => {
                for map in read.maps() {
                    prop_assert_eq!(map.records().count(), map.header.records);
                }
                for pc in read.pcs() {
                    prop_assert!(read.records_at(pc).count() > 0);
                }
                prop_assert!(read.memory_size() <= 16 * bytes.len());
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("the-file: section .llvm_stackmaps at offset 0x"), "{}", message);
                prop_assert!(message.ends_with("or update gwp-race"), "{}", message);
            }
        }
    }
}

/// Check that each kind of damage is named with its place.
#[test]
fn errors_name_what_is_wrong_and_where() {
    let good = Written {
        version: 3,
        functions: vec![(0x1000, 8, vec![(1, 2, vec![(1, 8, 7, 0)], vec![])])],
        constants: vec![],
    };
    let mut whole = Vec::new();
    good.write(&mut whole);
    assert!(decode(&whole).is_ok());
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes
    };
    for (bytes, offset, what) in [
        (with(0, 4), 0, "it has version 4 from here on"),
        (with(0, 0), 0, "version that is not known"),
        (whole[..15].to_vec(), 0, "fewer bytes than this count needs"),
        (with(7, 1), 16, "fewer bytes than this count needs"),
        (with(12, 2), 0, "as many records"),
        (with(32, 2), 0, "as many records"),
        (with(11, 1), 40, "fewer bytes than this count needs"),
        (with(56, 9), 56, "kind that is not known"),
        (with(56, 5), 56, "constant that is not there"),
        (with(54, 9), 56, "fewer bytes than this count needs"),
        (with(74, 9), 76, "fewer bytes than this count needs"),
        (whole[..70].to_vec(), 70, "within a number"),
    ] {
        let message = decode(&bytes).err().expect(what).to_string();
        let place = format!("at offset {offset:#x}: ");
        assert!(
            message.contains(&place) && message.contains(what),
            "{offset} {what}: {message}"
        );
    }
}

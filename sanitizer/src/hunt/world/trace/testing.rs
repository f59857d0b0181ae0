//! Makes recordings for tests.

use std::collections::BTreeMap;

use super::{
    clocks::Clocks,
    format::{Access, Entry, HEADER, Operation, What},
    races::{Place, Races, Seen},
};

/// Something that a thread does.
#[derive(Clone, Copy)]
pub(super) enum Deed {
    Reads(u64, u16),
    Writes(u64, u16),
    ReadsAtomically(u64),
    WritesAtomically(u64),
    Does(u64, Operation),
    Allocates(u64, u16),
}

/// The races of what three threads do, one after the other: the site and the time of each deed are its number.
pub(super) fn races_of(deeds: &[(usize, Deed)]) -> BTreeMap<[Place; 2], Seen> {
    let (mut clocks, mut races) = (Clocks::new(3), Races::default());
    for (number, &(thread, deed)) in (1..).zip(deeds) {
        let mut access = |address, length, writes, atomic| {
            let place = Place {
                site: number,
                writes,
                atomic,
            };
            for word in (Access {
                address,
                length,
                writes,
                atomic,
            })
            .words()
            {
                races.access(&clocks, thread, word, place, number.into());
            }
        };
        match deed {
            Deed::Reads(address, length) => access(address, length, false, false),
            Deed::Writes(address, length) => access(address, length, true, false),
            Deed::ReadsAtomically(address) => access(address, 8, false, true),
            Deed::WritesAtomically(address) => access(address, 8, true, true),
            Deed::Does(object, operation) => clocks.synchronize(thread, object, operation),
            Deed::Allocates(address, length) => races.allocated(address, length),
        }
    }
    races.into_found()
}

/// The bytes that a recorder would write.
pub(super) fn bytes_of(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut record = |kind: u64, address: u64, length: u64, when: u64| {
        bytes.extend((address | length << 48 | kind << 60).to_le_bytes());
        bytes.extend(when.to_le_bytes());
    };
    for entry in entries {
        if let Some(sequence) = entry.sequence {
            record(5, 0, 0, sequence);
        }
        let when = entry.time | u64::from(entry.site) << 40;
        match entry.what {
            What::Access(Access {
                address,
                length,
                writes,
                atomic,
            }) => {
                let kind = 1 + u64::from(writes) + 2 * u64::from(atomic);
                record(kind, address, length.into(), when);
            }
            What::Sync { object, operation } => record(6, object, number_of(operation), when),
            What::Allocated { address, length } => record(7, address, length.into(), when),
            What::Freed => record(8, 0, 0, when),
        }
    }
    bytes
}

fn number_of(operation: Operation) -> u64 {
    match operation {
        Operation::Lock => 1,
        Operation::LockShared => 2,
        Operation::Unlock => 3,
        Operation::Release => 4,
        Operation::Acquire => 5,
        Operation::LoadRelaxed => 6,
        Operation::StoreRelease => 7,
        Operation::StoreRelaxed => 8,
        Operation::Fence { acquires, releases } => {
            8 + u64::from(acquires) + 2 * u64::from(releases)
        }
        Operation::ReadWrite { acquires, releases } => {
            16 + u64::from(acquires) + 2 * u64::from(releases)
        }
    }
}

/// What a thread's file begins with: a second that was recorded, with a tick each nanosecond.
pub(super) fn header(thread: u32, records: u64) -> [u8; HEADER] {
    let second = 1_000_000_000;
    let numbers = [
        u64::from_le_bytes(*b"gwp-rec\0"),
        1 | u64::from(thread) << 32,
        second,
        0x40_0000,
        0x50_0000,
        records,
        2 * second,
        second,
    ];
    let mut bytes = [0; HEADER];
    for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    bytes
}

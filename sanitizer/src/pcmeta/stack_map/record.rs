//! One record of a stack map: where the live values of one PC are.
//!
//! Source: LLVM's StackMaps page, and for versions 1 and 2 that page as it was with them
//! (LLVM 3.5 to 3.9, LLVM 4 and 5). A location has 8 bytes in versions 1 and 2, of which one is
//! its size, and 12 bytes in version 3.

use serde::{Deserialize, Serialize};

use super::super::entry::Trouble;
use super::super::reader::Reader;
use crate::addr::LinkAddr;

/// What records begin with: ID, offset, flags and the number of locations.
const HEAD: usize = 16;
/// The least that a record takes.
pub(super) const RECORD_SIZE: usize = 24;
/// Records, and the parts of version 3 behind the locations, begin at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
const LIVE_OUT_SIZE: usize = 4;

/// Where the live values of a PC are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackMapRecord {
    /// The number that the maker of the code gave it; need not be unique.
    pub id: u64,
    /// The function that it is in. Version 1 tells that only where there is one record a
    /// function, or one function.
    pub function: Option<LinkAddr>,
    /// The distance of its PC from the start of the function.
    pub offset: u32,
    /// Flags, of which none is defined so far.
    pub flags: u16,
    /// The live values, in the order of the call that made the record.
    pub locations: Vec<Location>,
    /// The registers that must survive what is patched in here.
    pub live_outs: Vec<LiveOut>,
}

impl StackMapRecord {
    /// The PC that it describes, where that is known.
    #[must_use]
    pub fn pc(&self) -> Option<LinkAddr> {
        Some(self.function?.offset(self.offset.into()))
    }
}

/// Where a live value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Its size in bytes.
    pub size: u16,
    /// Where to find it. Registers have DWARF's numbers for the machine.
    pub value: LiveValue,
}

/// The forms that a live value can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveValue {
    /// In a register, `offset` bits above the lowest where it is only a part of that.
    Register {
        /// The register.
        register: u16,
        /// The field that the other forms have their distance in.
        offset: i32,
    },
    /// It is the address `register + offset` itself: a variable on the stack.
    Direct {
        /// The register.
        register: u16,
        /// The distance in bytes.
        offset: i32,
    },
    /// In memory at `register + offset`.
    Indirect {
        /// The register.
        register: u16,
        /// The distance in bytes.
        offset: i32,
    },
    /// A constant of 32 bits, sign-extended.
    Constant(i32),
    /// A larger constant, out of the table of constants.
    LargeConstant {
        /// Its index in that table.
        index: u32,
        /// The constant.
        value: u64,
    },
}

/// A register that is needed after the PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveOut {
    /// DWARF's number of the register.
    pub register: u16,
    /// How many of its bytes are needed.
    pub size: u8,
}

/// The head of a record, which says how long it is.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) id: u64,
    pub(super) offset: u32,
    flags: u16,
    locations: u16,
}

impl Head {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Trouble> {
        reader.count(1, HEAD)?;
        Ok(Self {
            id: reader.u64()?,
            offset: reader.u32()?,
            flags: reader.u16()?,
            locations: reader.u16()?,
        })
    }

    /// The whole record, given the constants of its map.
    pub(super) fn record(
        self,
        reader: &mut Reader<'_>,
        version: u8,
        function: Option<LinkAddr>,
        constant: impl Fn(u32) -> Option<u64>,
    ) -> Result<StackMapRecord, Trouble> {
        let count = reader.count(self.locations.into(), location_size(version))?;
        let mut locations = Vec::with_capacity(count);
        for _ in 0..count {
            locations.push(location(reader, version, &constant)?);
        }
        let count = live_out_count(reader, version)?;
        let mut live_outs = Vec::with_capacity(count);
        for _ in 0..count {
            let register = reader.u16()?;
            let _reserved = reader.u8()?;
            let size = reader.u8()?;
            live_outs.push(LiveOut { register, size });
        }
        align(reader)?;
        Ok(StackMapRecord {
            id: self.id,
            function,
            offset: self.offset,
            flags: self.flags,
            locations,
            live_outs,
        })
    }

    /// Goes on behind the record and checks it, without taking memory for what it holds.
    pub(super) fn check(
        self,
        reader: &mut Reader<'_>,
        version: u8,
        constant: impl Fn(u32) -> Option<u64>,
    ) -> Result<(), Trouble> {
        for _ in 0..reader.count(self.locations.into(), location_size(version))? {
            location(reader, version, &constant)?;
        }
        let count = live_out_count(reader, version)?;
        reader.bytes(count * LIVE_OUT_SIZE)?;
        align(reader)
    }
}

fn location_size(version: u8) -> usize {
    if version >= 3 { 12 } else { 8 }
}

fn location(
    reader: &mut Reader<'_>,
    version: u8,
    constant: impl Fn(u32) -> Option<u64>,
) -> Result<Location, Trouble> {
    let before = *reader;
    let kind = reader.u8()?;
    let (size, register) = if version >= 3 {
        let _reserved = reader.u8()?;
        let (size, register) = (reader.u16()?, reader.u16()?);
        let _reserved = reader.u16()?;
        (size, register)
    } else {
        (reader.u8()?.into(), reader.u16()?)
    };
    let number = reader.u32()?;
    let offset = number.cast_signed();
    let value = match kind {
        1 => LiveValue::Register { register, offset },
        2 => LiveValue::Direct { register, offset },
        3 => LiveValue::Indirect { register, offset },
        4 => LiveValue::Constant(offset),
        5 => match constant(number) {
            Some(value) => LiveValue::LargeConstant {
                index: number,
                value,
            },
            None => {
                *reader = before;
                return Err("a location names a constant that is not there");
            }
        },
        _ => {
            *reader = before;
            return Err("a location is of a kind that is not known");
        }
    };
    Ok(Location { size, value })
}

fn live_out_count(reader: &mut Reader<'_>, version: u8) -> Result<usize, Trouble> {
    if version >= 3 {
        align(reader)?;
    }
    let _padding = reader.u16()?;
    let count = reader.u16()?;
    reader.count(count.into(), LIVE_OUT_SIZE)
}

/// Goes on to the next multiple of the alignment, or to the section's end where that is nearer.
fn align(reader: &mut Reader<'_>) -> Result<(), Trouble> {
    let padding = reader.at().next_multiple_of(ALIGNMENT) - reader.at();
    reader.bytes(padding.min(reader.remaining())).map(|_| ())
}

//! One map of a section, as it stands in the file.

use crate::addr::LinkAddr;
use crate::image::Encoding;
use crate::pcmeta::entry::Trouble;
use crate::pcmeta::reader::Reader;

use super::record::{ALIGNMENT, Head, RECORD_SIZE};
use super::{
    CONSTANT_SIZE, HEADER_SIZE, NEWEST, NOT_STATIC, StackMapFunction, StackMapRecord, function_size,
};

/// One of the maps that a linker laid into a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackMapHeader {
    /// The version of its layout.
    pub version: u8,
    /// How many functions it has.
    pub functions: usize,
    /// How many large constants it has.
    pub constants: usize,
    /// How many records it has.
    pub records: usize,
    /// Where its functions start within the section.
    functions_at: usize,
}

impl StackMapHeader {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Trouble> {
        let before = *reader;
        reader.count(1, HEADER_SIZE)?;
        let version = reader.u8()?;
        if !(1..=NEWEST).contains(&version) {
            *reader = before;
            return Err("a stack map has a version that is not known");
        }
        let _reserved = (reader.u8()?, reader.u16()?);
        let counts = [reader.u32()?, reader.u32()?, reader.u32()?];
        let [functions, constants, records] = counts.map(u64::from);
        let functions_at = reader.at();
        let size = function_size(version);
        let functions = reader.count(functions, size)?;
        let mut declared = 0u64;
        for _ in 0..functions {
            let function = function(reader, version)?;
            declared = declared.saturating_add(function.record_count.unwrap_or(0));
        }
        let constants = reader.count(constants, CONSTANT_SIZE)?;
        reader.bytes(constants * CONSTANT_SIZE)?;
        if version >= 2 && declared != records {
            *reader = before;
            return Err("its functions do not have as many records as it says it has");
        }
        let records = reader.count(records, RECORD_SIZE - ALIGNMENT / 2)?;
        Ok(Self {
            version,
            functions,
            constants,
            records,
            functions_at,
        })
    }

    fn constants_at(&self) -> usize {
        self.functions_at + self.functions * function_size(self.version)
    }

    pub(super) fn records_at(&self) -> usize {
        self.constants_at() + self.constants * CONSTANT_SIZE
    }
}

/// One map with all that it holds.
#[derive(Clone, Copy)]
pub struct StackMap<'data> {
    /// Its version and the counts of its parts.
    pub header: StackMapHeader,
    pub(super) data: &'data [u8],
    pub(super) encoding: Encoding,
}

impl<'data> StackMap<'data> {
    pub(super) fn reader(self, at: usize) -> Reader<'data> {
        Reader::new(self.data, at, self.encoding)
    }

    /// The functions that have records.
    pub fn functions(self) -> impl Iterator<Item = StackMapFunction> + use<'data> {
        let mut reader = self.reader(self.header.functions_at);
        let version = self.header.version;
        (0..self.header.functions).map_while(move |_| function(&mut reader, version).ok())
    }

    /// The constants that do not fit into a location.
    pub fn constants(self) -> impl Iterator<Item = u64> + use<'data> {
        let mut reader = self.reader(self.header.constants_at());
        (0..self.header.constants).map_while(move |_| reader.u64().ok())
    }

    /// The records, in the order of the file.
    pub fn records(self) -> impl Iterator<Item = StackMapRecord> + use<'data> {
        let mut reader = self.reader(self.header.records_at());
        let mut functions = self.functions_of_records();
        (0..self.header.records).map_while(move |_| {
            let head = Head::read(&mut reader).ok()?;
            self.record(head, &mut reader, functions.next()).ok()
        })
    }

    /// The address of the function that each record is in, as far as the map tells.
    pub(super) fn functions_of_records(self) -> impl Iterator<Item = LinkAddr> + use<'data> {
        let StackMapHeader {
            functions, records, ..
        } = self.header;
        self.functions().flat_map(move |function| {
            let count = match function.record_count {
                Some(count) => count as usize,
                // Version 1 does not tell, but a function is only there for its records.
                None if functions == records => 1,
                None if functions == 1 => records,
                None => 0,
            };
            std::iter::repeat_n(function.address, count)
        })
    }

    pub(super) fn constant(self, index: u32) -> Option<u64> {
        let index = index as usize;
        if index >= self.header.constants {
            return None;
        }
        let at = self.header.constants_at() + index * CONSTANT_SIZE;
        self.reader(at).u64().ok()
    }

    pub(super) fn record(
        self,
        head: Head,
        reader: &mut Reader<'_>,
        function: Option<LinkAddr>,
    ) -> Result<StackMapRecord, Trouble> {
        head.record(reader, self.header.version, function, |index| {
            self.constant(index)
        })
    }
}

pub(super) fn function(reader: &mut Reader<'_>, version: u8) -> Result<StackMapFunction, Trouble> {
    Ok(StackMapFunction {
        address: LinkAddr(reader.u64()?),
        stack_size: Some(reader.u64()?).filter(|&size| size != NOT_STATIC),
        record_count: (version >= 2).then(|| reader.u64()).transpose()?,
    })
}

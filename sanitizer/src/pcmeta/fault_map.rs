//! Fault maps: loads and stores that may fault by intention, and where to go on then; the section
//! `.llvm_faultmaps` that LLVM's implicit null checks make.
//!
//! Source: LLVM's FaultMaps page, version 1. A linker lays the sections of its inputs one behind the
//! other, so a section holds several maps, each with a header of its own.

use std::path::Path;

use super::RawSection;
use super::entry::Trouble;
use super::error::{OnError, TableError, strictly};
use super::reader::Reader;
use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};

const SECTION: &str = ".llvm_faultmaps";
const NEWEST: u8 = 1;
const FUNCTION_SIZE: usize = 16;
const FAULT_SIZE: usize = 12;

/// What an instruction that may fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It reads.
    Load,
    /// It reads and writes.
    LoadStore,
    /// It writes.
    Store,
}

/// An instruction that may fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first byte of its function.
    pub function: LinkAddr,
    /// Its distance from there.
    pub offset: u32,
    /// The distance of the code that goes on after a fault.
    pub handler: u32,
    /// What it does.
    pub kind: FaultKind,
}

impl Fault {
    /// The instruction.
    #[must_use]
    pub fn pc(&self) -> LinkAddr {
        self.function.offset(self.offset.into())
    }

    /// The code that goes on after a fault.
    #[must_use]
    pub fn handler_pc(&self) -> LinkAddr {
        self.function.offset(self.handler.into())
    }
}

/// The fault maps of an image, sorted by the PC of the instruction.
#[derive(Default)]
pub struct FaultMaps {
    faults: Vec<Fault>,
    functions: usize,
    section_bytes: usize,
}

impl FaultMaps {
    /// Reads the fault maps of an image. An image without any gives none.
    ///
    /// # Errors
    /// The section is damaged, or of an unknown version.
    pub fn load(image: &Image) -> Result<Self, TableError> {
        strictly(|on_error| Self::load_readable(image, on_error))
    }

    /// Reads as much as can be read; `on_error` is told what is left out.
    pub fn load_readable(image: &Image, on_error: OnError<'_>) -> Self {
        let mut maps = Self::default();
        for section in image.sections().filter(|section| section.name == SECTION) {
            let data = image.relocated(&section).map_err(TableError::from);
            if let Err(error) =
                data.and_then(|data| maps.add(&data, image.encoding(), image.name()))
            {
                on_error(error);
            }
        }
        let pcs = maps.faults.iter().map(Fault::pc);
        if let Err(error) = TableError::check_places(image, SECTION, pcs) {
            on_error(error);
            return Self::default();
        }
        maps.finish();
        maps
    }

    /// Reads the fault maps in `sections`; `file` is what messages call their file.
    ///
    /// # Errors
    /// As [`FaultMaps::load`].
    pub fn decode(sections: &[RawSection<'_>], file: &Path) -> Result<Self, TableError> {
        let mut maps = Self::default();
        for section in sections {
            maps.add(section.data, section.encoding, file)?;
        }
        maps.finish();
        Ok(maps)
    }

    /// Whether there is no section of this kind, or nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.section_bytes == 0
    }

    /// All instructions that may fault, sorted by address.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How many functions have such instructions.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions
    }

    /// How many bytes the sections have.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        self.section_bytes
    }

    /// What is known of the instruction at `pc`: found by a binary search.
    #[must_use]
    pub fn at(&self, pc: LinkAddr) -> Option<Fault> {
        let first = self.faults.partition_point(|fault| fault.pc() < pc);
        self.faults
            .get(first)
            .filter(|fault| fault.pc() == pc)
            .copied()
    }

    fn add(&mut self, data: &[u8], encoding: Encoding, file: &Path) -> Result<(), TableError> {
        let before = self.functions;
        let outcome = self.add_maps(data, encoding, file);
        if outcome.is_ok() || self.functions > before {
            self.section_bytes += data.len();
        }
        outcome
    }

    /// Adds the maps of a section up to the first that cannot be read.
    fn add_maps(&mut self, data: &[u8], encoding: Encoding, file: &Path) -> Result<(), TableError> {
        // A fault takes 12 bytes here, and 24 in memory.
        self.faults.reserve(data.len() / FAULT_SIZE);
        let mut reader = Reader::new(data, 0, encoding);
        while !reader.is_at_end() {
            TableError::check_version(&reader, NEWEST, file, SECTION)?;
            let malformed = |(at, what)| TableError::malformed(file, SECTION, at, what);
            self.add_map(&mut reader)
                .map_err(|what| malformed((reader.at(), what)))?;
        }
        Ok(())
    }

    fn add_map(&mut self, reader: &mut Reader<'_>) -> Result<(), Trouble> {
        // No map begins with a zero, but a linker fills gaps with it.
        if reader.u8()? == 0 {
            return Ok(());
        }
        let _reserved = (reader.u8()?, reader.u16()?);
        let functions = reader.u32()?;
        for _ in 0..reader.count(functions.into(), FUNCTION_SIZE)? {
            self.functions += 1;
            let function = LinkAddr(reader.u64()?);
            let faults = reader.u32()?;
            let _reserved = reader.u32()?;
            for _ in 0..reader.count(faults.into(), FAULT_SIZE)? {
                let before = *reader;
                let kind = match reader.u32()? {
                    1 => FaultKind::Load,
                    2 => FaultKind::LoadStore,
                    3 => FaultKind::Store,
                    _ => {
                        *reader = before;
                        return Err("a fault is of a kind that is not known");
                    }
                };
                self.faults.push(Fault {
                    function,
                    offset: reader.u32()?,
                    handler: reader.u32()?,
                    kind,
                });
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        if !self.faults.is_sorted_by_key(Fault::pc) {
            self.faults.sort_by_key(Fault::pc);
        }
        self.faults.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Functions = Vec<(u32, Vec<(u32, u32, u32)>)>;

    fn decode(data: &[u8]) -> Result<FaultMaps, TableError> {
        let section = RawSection {
            name: SECTION,
            address: LinkAddr(0),
            data,
            encoding: Encoding::default(),
        };
        FaultMaps::decode(&[section], Path::new("the-file"))
    }

    fn write(maps: &[(Functions, usize)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (functions, padding) in maps {
            bytes.extend([1, 0, 0, 0]);
            bytes.extend((functions.len() as u32).to_le_bytes());
            for (address, faults) in functions {
                bytes.extend(u64::from(*address).to_le_bytes());
                bytes.extend((faults.len() as u32).to_le_bytes());
                bytes.extend([0; 4]);
                for (kind, offset, handler) in faults {
                    for number in [kind, offset, handler] {
                        bytes.extend(number.to_le_bytes());
                    }
                }
            }
            bytes.resize(bytes.len() + padding, 0);
        }
        bytes
    }

    fn maps() -> impl Strategy<Value = Vec<(Functions, usize)>> {
        let fault = (1u32..4, any::<u32>(), any::<u32>());
        let function = (any::<u32>(), prop::collection::vec(fault, 0..4));
        prop::collection::vec((prop::collection::vec(function, 0..4), 0usize..9), 0..4)
    }

    proptest! {
        /// Check that maps, several in one section, are read as they were written.
        #[test]
        fn what_is_written_is_read_back(maps in maps()) {
            let read = decode(&write(&maps)).unwrap();
            let functions = maps.iter().flat_map(|(functions, _)| functions);
            prop_assert_eq!(read.function_count(), functions.clone().count());
            let mut expected: Vec<_> = functions
                .flat_map(|(address, faults)| faults.iter().map(move |fault| (*address, *fault)))
                .map(|(address, (kind, offset, handler))| Fault {
                    function: LinkAddr(address.into()),
                    offset,
                    handler,
                    kind: [FaultKind::Load, FaultKind::LoadStore, FaultKind::Store][kind as usize - 1],
                })
                .collect();
            expected.sort_by_key(Fault::pc);
            prop_assert_eq!(read.faults(), &expected[..]);
            for fault in &expected {
                prop_assert_eq!(read.at(fault.pc()).map(|found| found.pc()), Some(fault.pc()));
            }
        }

        /// Check that damaged maps give faults or an error with its place.
        #[test]
        fn any_bytes_give_faults_or_an_error(
            maps in maps(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = write(&maps);
            bytes.push(0);
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            match decode(&bytes) {
                Ok(read) => prop_assert!(read.faults().len() * FAULT_SIZE <= bytes.len()),
                Err(error) => {
                    let message = error.to_string();
                    prop_assert!(message.contains("section .llvm_faultmaps at offset 0x"), "{}", message);
                }
            }
        }
    }

    #[test]
    fn errors_name_what_is_wrong_and_where() {
        let whole = write(&[(vec![(0x1000, vec![(1, 2, 3)])], 0)]);
        let with = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[at] = value;
            bytes
        };
        for (bytes, offset, what) in [
            (with(0, 2), 0, "it has version 2 from here on"),
            (with(4, 3), 8, "fewer bytes than this count needs"),
            (with(16, 2), 24, "fewer bytes than this count needs"),
            (with(24, 4), 24, "kind that is not known"),
        ] {
            let message = decode(&bytes).err().expect(what).to_string();
            let place = format!("at offset {offset:#x}: ");
            assert!(
                message.contains(&place) && message.contains(what),
                "{message}"
            );
        }
    }
}

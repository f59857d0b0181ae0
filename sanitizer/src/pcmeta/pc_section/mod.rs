//! PC sections of any name: what `!pcsections` metadata in LLVM's IR makes the compiler write down
//! of instructions and functions.
//!
//! ```no_run
//! # use gwp_race::{image::Image, pcmeta::PcSection};
//! let image = Image::open("a.out".as_ref())?;
//! let section = PcSection::load(&image, &"my_calls!C=instruction,4".parse()?)?;
//! for entry in section.entries() {
//!     println!("{}: {:?}", entry.pc, entry.constants);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The section's bytes are kept, and 20 bytes an entry. The format: LLVM's PCSectionsMetadata page, and what that
//! leaves open, `AsmPrinter::emitPCSections`:
//!
//! - a distance is from the place where it stands itself. It has four bytes, with `-mcmodel=medium` and `large` as
//!   many as a pointer;
//! - all instructions of a function that carry the *same* metadata node come as one: their distances one behind
//!   the other, and behind the last of them the constants of the node, once;
//! - with `!C` the size of a function and each integer of two to eight bytes is in ULEB128; larger integers,
//!   floats, pointers and structs are as they are in memory.

mod description;
mod search;

use std::ops::Range;
use std::path::Path;

use super::RawSection;
use super::entry::Trouble;
use super::error::TableError;
use super::reader::Reader;
use super::text::Text;
use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};

pub use description::{DescriptionError, PcConstantForm, PcEntryForm, PcSectionDescription};

use search::Search;

/// One entry of a PC section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcEntry {
    /// The instruction, or the first byte of the function.
    pub pc: LinkAddr,
    /// The size of the function in bytes.
    pub size: Option<u64>,
    /// The constants that were written behind it, or behind the last of the instructions that share them.
    pub constants: Vec<PcConstant>,
}

/// A constant of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PcConstant {
    /// One of up to eight bytes.
    Number(u64),
    /// A larger one, as it is in the file.
    Wide(Vec<u8>),
}

impl From<u64> for PcConstant {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// The entries of all sections of one name in an image.
pub struct PcSection {
    description: PcSectionDescription,
    encoding: Encoding,
    sections: Vec<Decoded>,
    base: LinkAddr,
    /// The entries for functions and those for instructions, each sorted by PC.
    functions: Vec<Indexed>,
    instructions: Vec<Indexed>,
    entries: usize,
    discarded: usize,
}

/// One section and its entries, in the order of the file.
struct Decoded {
    address: LinkAddr,
    data: Vec<u8>,
    entries: Vec<Parsed>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parsed {
    /// Where it starts within its section.
    at: u32,
    /// Where its constants start.
    constants: u32,
    /// Which of the description's forms it has.
    form: u8,
}

#[derive(Clone, Copy)]
struct Indexed {
    /// The PC, as an offset from the base.
    pc: u32,
    /// The entry, counted through all sections.
    entry: u32,
}

impl PcSection {
    /// Reads the sections of an image that the description names. There may be none.
    ///
    /// # Errors
    /// A section is not laid out as the description says, or the code is larger than 4 GiB.
    pub fn load(image: &Image, description: &PcSectionDescription) -> Result<Self, TableError> {
        let mut sections = Vec::new();
        for section in image
            .sections()
            .filter(|section| section.name == description.name)
        {
            sections.push((section.address, image.relocated(&section)?.into_owned()));
        }
        let (text, encoding) = (image.text_ranges(), image.encoding());
        let section = Self::new(description, sections, encoding, &text, image.name())?;
        // Without relocations all distances are zero, and look like padding.
        let is_empty = section.entries == 0 && image.is_object() && section.section_bytes() > 0;
        if is_empty || (section.entries > 0 && section.discarded == section.entries) {
            return Err(TableError::Nowhere {
                file: image.name().into(),
                section: description.name.clone(),
            });
        }
        Ok(section)
    }

    /// Reads `sections`, all of them as the description says and in the encoding of the first; `text` is where the
    /// code is, sorted and without overlaps, and `file` is what messages call it.
    ///
    /// # Errors
    /// As [`PcSection::load`].
    pub fn decode(
        description: &PcSectionDescription,
        sections: &[RawSection<'_>],
        text: &[Range<LinkAddr>],
        file: &Path,
    ) -> Result<Self, TableError> {
        let encoding = sections.first().map(|section| section.encoding);
        let sections = sections.iter();
        let sections = sections.map(|s| (s.address, s.data.to_vec())).collect();
        let encoding = encoding.unwrap_or_default();
        Self::new(description, sections, encoding, text, file)
    }

    fn new(
        description: &PcSectionDescription,
        sections: Vec<(LinkAddr, Vec<u8>)>,
        encoding: Encoding,
        text: &[Range<LinkAddr>],
        file: &Path,
    ) -> Result<Self, TableError> {
        let mut text = Text::new(text).map_err(|span| TableError::TextTooLarge {
            file: file.into(),
            span,
        })?;
        let misdescribed = |offset, what| TableError::Misdescribed {
            file: file.into(),
            section: description.name.clone(),
            offset,
            what,
            description: description.to_string(),
        };
        let mut decoded = Self {
            description: description.clone(),
            encoding,
            sections: Vec::with_capacity(sections.len()),
            base: text.base(),
            functions: Vec::new(),
            instructions: Vec::new(),
            entries: 0,
            discarded: 0,
        };
        for (address, data) in sections {
            if u32::try_from(data.len()).is_err() {
                return Err(misdescribed(0, "it has more than 4 GiB"));
            }
            let forms = &description.forms;
            let entries = Search::new(forms, address, &data, encoding, &mut text).entries();
            let entries = entries.map_err(|(offset, what)| misdescribed(offset, what))?;
            decoded.add(address, data, entries, &mut text);
        }
        for index in [&mut decoded.functions, &mut decoded.instructions] {
            if !index.is_sorted_by_key(|entry: &Indexed| entry.pc) {
                index.sort_by_key(|entry| entry.pc);
            }
            index.shrink_to_fit();
        }
        Ok(decoded)
    }

    /// Adds a section whose entries are known.
    fn add(&mut self, address: LinkAddr, data: Vec<u8>, entries: Vec<Parsed>, text: &mut Text) {
        let forms = &self.description.forms;
        for parsed in &entries {
            let entry = self.entries as u32;
            self.entries += 1;
            let mut reader = Reader::new(&data, parsed.at as usize, self.encoding);
            let form = forms.get(usize::from(parsed.form));
            let code =
                form.and_then(|form| Code::read(form, address, self.encoding, &mut reader).ok()?);
            let Some(code) = code else { continue };
            let index = match code.size {
                Some(_) => &mut self.functions,
                None => &mut self.instructions,
            };
            match code.offset(text) {
                Some(pc) => index.push(Indexed { pc, entry }),
                None => self.discarded += 1,
            }
        }
        self.sections.push(Decoded {
            address,
            data,
            entries,
        });
    }

    /// What it was read as.
    #[must_use]
    pub fn description(&self) -> &PcSectionDescription {
        &self.description
    }

    /// Whether the file has no section of this name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// How many bytes the sections have.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        self.sections.iter().map(|section| section.data.len()).sum()
    }

    /// How many entries there are, padding not counted.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.entries
    }

    /// How many entries point at no code of the file: leftovers of what the linker discarded.
    #[must_use]
    pub fn discarded(&self) -> usize {
        self.discarded
    }

    /// All entries, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = PcEntry> {
        self.sections.iter().flat_map(move |section| {
            (section.entries.iter()).filter_map(move |parsed| self.entry(section, *parsed))
        })
    }

    /// The entries for the function that `pc` is in and those for the instruction at `pc`: found by binary
    /// searches.
    pub fn entries_at(&self, pc: LinkAddr) -> impl Iterator<Item = PcEntry> {
        let offset = pc.0.checked_sub(self.base.0);
        let offset = offset.and_then(|offset| u32::try_from(offset).ok());
        let instructions = offset.map_or(&[][..], |offset| of_pc(&self.instructions, offset));
        // Functions do not overlap: the nearest start below is the one.
        let after = offset.map_or(0, |offset| {
            self.functions.partition_point(|entry| entry.pc <= offset)
        });
        let nearest = after.checked_sub(1);
        let nearest = nearest.and_then(|last| self.functions.get(last));
        let functions = nearest.map_or(&[][..], |nearest| of_pc(&self.functions, nearest.pc));
        (functions.iter().chain(instructions))
            .filter_map(|indexed| self.nth(indexed.entry))
            .filter(move |entry| match entry.size {
                Some(size) => pc.0.wrapping_sub(entry.pc.0) < size,
                None => true,
            })
    }

    /// The entry of this number, counted through all sections.
    fn nth(&self, number: u32) -> Option<PcEntry> {
        let mut number = number as usize;
        for section in &self.sections {
            if let Some(parsed) = section.entries.get(number) {
                return self.entry(section, *parsed);
            }
            number -= section.entries.len();
        }
        None
    }

    fn entry(&self, section: &Decoded, parsed: Parsed) -> Option<PcEntry> {
        let form = self.description.forms.get(usize::from(parsed.form))?;
        let reader = Reader::new(&section.data, 0, self.encoding);
        let mut code = reader.at_offset(parsed.at as usize);
        let code = Code::read(form, section.address, self.encoding, &mut code).ok()??;
        let mut reader = reader.at_offset(parsed.constants as usize);
        let mut constants = Vec::with_capacity(form.constants.len());
        for &constant in &form.constants {
            constants.push(read_constant(form, constant, &mut reader).ok()?);
        }
        Some(PcEntry {
            pc: code.pc,
            size: code.size,
            constants,
        })
    }
}

/// The entries of an index, sorted by PC, that are for one.
fn of_pc(index: &[Indexed], pc: u32) -> &[Indexed] {
    let start = index.partition_point(|entry| entry.pc < pc);
    let end = index.partition_point(|entry| entry.pc <= pc);
    index.get(start..end).unwrap_or_default()
}

/// The code that an entry is for.
#[derive(Clone, Copy)]
struct Code {
    pc: LinkAddr,
    size: Option<u64>,
}

impl Code {
    /// Reads an entry up to its constants; nothing for padding.
    #[inline]
    fn read(
        form: &PcEntryForm,
        section: LinkAddr,
        encoding: Encoding,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, Trouble> {
        let (at, tail) = (reader.at(), reader.remaining());
        let width = form.distance_size(encoding);
        if tail < width {
            // Alignment at the section's end.
            let before = *reader;
            if reader.bytes(tail)?.iter().any(|&byte| byte != 0) {
                *reader = before;
                return Err("the section ends within a code offset");
            }
            return Ok(None);
        }
        let distance = match width {
            8 => reader.u64()?.cast_signed(),
            _ => reader.u32()?.cast_signed().into(),
        };
        if distance == 0 {
            return Ok(None);
        }
        let size = match (form.has_size, form.compressed) {
            (false, _) => None,
            (true, false) => Some(reader.u32()?.into()),
            (true, true) => Some(reader.uleb128()?),
        };
        let pc = section.offset(at as i64).offset(distance);
        Ok(Some(Self { pc, size }))
    }

    /// Where it is, if it is code of the file.
    fn offset(self, text: &mut Text) -> Option<u32> {
        text.offset_of(self.pc, self.size.unwrap_or(0))
    }
}

fn skip_constant(
    form: &PcEntryForm,
    constant: PcConstantForm,
    reader: &mut Reader<'_>,
) -> Result<(), Trouble> {
    match form.is_packed(constant) {
        true => reader.uleb128().map(|_| ()),
        false => reader.bytes(constant.bytes.into()).map(|_| ()),
    }
}

fn read_constant(
    form: &PcEntryForm,
    constant: PcConstantForm,
    reader: &mut Reader<'_>,
) -> Result<PcConstant, Trouble> {
    if form.is_packed(constant) {
        return reader.uleb128().map(PcConstant::Number);
    }
    match constant.bytes {
        0..=8 => reader.number(constant.bytes.into()).map(PcConstant::Number),
        bytes => Ok(PcConstant::Wide(reader.bytes(bytes.into())?.to_vec())),
    }
}

#[cfg(test)]
mod tests;

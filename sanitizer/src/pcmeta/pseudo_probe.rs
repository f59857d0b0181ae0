//! Pseudo probes: which block or call of the source, through which inlining, an address belongs to;
//! the sections `.pseudo_probe` and `.pseudo_probe_desc` that `-fpseudo-probe-for-profiling` makes.
//!
//! Source: LLVM's `MC/MCPseudoProbe.h`. A function's record has its probes and then, each in the same form,
//! the records of what was inlined into it. Addresses are distances from the probe before; the
//! first is one from the start of the function, which the file tells by the number of its name
//! alone. Older compilers wrote the first address of a section whole.

use std::collections::HashMap;
use std::path::Path;

use md5::{Digest as _, Md5};

use super::RawSection;
use super::entry::Trouble;
use super::error::{OnError, TableError, strictly};
use super::reader::Reader;
use crate::addr::LinkAddr;
use crate::image::{Encoding, Image};

const PROBES: &str = ".pseudo_probe";
const DESCRIPTIONS: &str = ".pseudo_probe_desc";
/// The bits of a probe's second byte.
const KIND: u8 = 0xf;
const ATTRIBUTES: u8 = 0x70;
const IS_DISTANCE: u8 = 0x80;
const SENTINEL: u8 = 2;
const HAS_DISCRIMINATOR: u8 = 4;
/// The least that an inlined function takes: where it was inlined, its number and two counts.
const INLINED_SIZE: usize = 11;
const PROBE_SIZE: usize = 3;

/// What a probe stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A block of the source.
    Block,
    /// A call through a pointer.
    IndirectCall,
    /// A call of a named function.
    DirectCall,
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PseudoProbe {
    /// The instruction that it is at, where the file tells.
    pub address: Option<LinkAddr>,
    /// The number of the function of the source that it is of.
    pub function: u64,
    /// Its number in that function.
    pub index: u32,
    /// What it stands for.
    pub kind: ProbeKind,
    /// Tells copies of it apart; zero where there is one.
    pub discriminator: u32,
}

/// Where a function was inlined: into which function, and at which of its probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineSite {
    /// The number of the function that it was inlined into.
    pub caller: u64,
    /// The number of the probe of the call.
    pub index: u32,
}

/// What the probes of a file are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PseudoProbes {
    /// The functions of the source that were described.
    functions: HashMap<u64, ProbeFunction>,
    section_bytes: usize,
    top_level: usize,
    probes: usize,
}

/// A function of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFunction {
    /// Its name.
    pub name: String,
    /// A hash of its control flow.
    pub hash: u64,
}

impl PseudoProbes {
    /// Reads and counts the probes of an image. An image without any gives none.
    ///
    /// # Errors
    /// A section is damaged.
    pub fn load(image: &Image) -> Result<Self, TableError> {
        strictly(|on_error| Self::load_readable(image, on_error))
    }

    /// Whether an image has a section of this kind.
    #[must_use]
    pub fn is_in(image: &Image) -> bool {
        image.sections().any(|section| section.name == PROBES)
    }

    /// Reads as much as can be read; `on_error` is told what is left out.
    pub fn load_readable(image: &Image, on_error: OnError<'_>) -> Self {
        let mut probes = Self::default();
        let file = image.name();
        for section in image.sections() {
            if section.name != DESCRIPTIONS && section.name != PROBES {
                continue;
            }
            let data = image.relocated(&section).map_err(TableError::from);
            let outcome = data.and_then(|data| match section.name {
                DESCRIPTIONS => probes.describe(&data, image.encoding(), file),
                _ => probes.count(&data, image.encoding(), file),
            });
            outcome.unwrap_or_else(&mut *on_error);
        }
        probes
    }

    /// Reads all probes of an image in the order of the file, each with the calls that it was
    /// inlined through, outermost first.
    ///
    /// # Errors
    /// A section is damaged; what can be read is visited all the same.
    pub fn for_each(
        image: &Image,
        mut visit: impl FnMut(&PseudoProbe, &[InlineSite]),
    ) -> Result<(), TableError> {
        let (mut starts, mut first) = (None, None);
        for section in image.sections().filter(|section| section.name == PROBES) {
            let starts = starts.get_or_insert_with(|| {
                let symbols = image.functions();
                // Of several functions of one name the first has the probes, as in LLVM's tools.
                let symbols = symbols.iter().rev();
                symbols
                    .map(|s| (function_guid(s.name.as_bytes()), s.address))
                    .collect()
            });
            let data = image.relocated(&section).map_err(TableError::from);
            let outcome = data.and_then(|data| {
                let reader = Reader::new(&data, 0, image.encoding());
                read(reader, starts, image.name(), &mut 0, &mut visit)
            });
            if let Err(error) = outcome {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Reads the probes of `section`, given the addresses of functions by their numbers; says how
    /// many functions it has, inlined ones not counted. `file` is what messages call its file.
    ///
    /// # Errors
    /// The section is damaged.
    pub fn decode(
        section: &RawSection<'_>,
        starts: &HashMap<u64, LinkAddr>,
        file: &Path,
        visit: impl FnMut(&PseudoProbe, &[InlineSite]),
    ) -> Result<usize, TableError> {
        let mut functions = 0;
        let reader = Reader::new(section.data, 0, section.encoding);
        read(reader, starts, file, &mut functions, visit)?;
        Ok(functions)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.section_bytes == 0
    }

    /// How many bytes the sections of probes have.
    #[must_use]
    pub fn section_bytes(&self) -> usize {
        self.section_bytes
    }

    /// How many probes there are.
    #[must_use]
    pub fn probe_count(&self) -> usize {
        self.probes
    }

    /// How many functions have probes, inlined ones not counted.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.top_level
    }

    /// The function of the source that has this number.
    #[must_use]
    pub fn function(&self, number: u64) -> Option<&ProbeFunction> {
        self.functions.get(&number)
    }

    /// Counts what a section holds, as far as it can be read.
    fn count(&mut self, data: &[u8], encoding: Encoding, file: &Path) -> Result<(), TableError> {
        let before = self.probes;
        let starts = HashMap::new();
        let probes = &mut self.probes;
        let reader = Reader::new(data, 0, encoding);
        let outcome = read(reader, &starts, file, &mut self.top_level, |_, _| {
            *probes += 1
        });
        if outcome.is_ok() || self.probes > before {
            self.section_bytes += data.len();
        }
        outcome
    }

    fn describe(&mut self, data: &[u8], encoding: Encoding, file: &Path) -> Result<(), TableError> {
        let mut reader = Reader::new(data, 0, encoding);
        while !reader.is_at_end() {
            let (number, function) = description(&mut reader)
                .map_err(|what| TableError::malformed(file, DESCRIPTIONS, reader.at(), what))?;
            self.functions.entry(number).or_insert(function);
        }
        Ok(())
    }
}

fn description(reader: &mut Reader<'_>) -> Result<(u64, ProbeFunction), Trouble> {
    let (number, hash) = (reader.u64()?, reader.u64()?);
    let size = reader.uleb128_u32()?;
    let name = String::from_utf8_lossy(reader.bytes(size as usize)?).into_owned();
    Ok((number, ProbeFunction { name, hash }))
}

/// A function whose inlined functions are being read.
struct Open {
    function: u64,
    inlined_left: u32,
}

/// Reads a section and counts its functions.
fn read(
    mut reader: Reader<'_>,
    starts: &HashMap<u64, LinkAddr>,
    file: &Path,
    functions: &mut usize,
    mut visit: impl FnMut(&PseudoProbe, &[InlineSite]),
) -> Result<(), TableError> {
    let mut last = Last::default();
    while !reader.is_at_end() {
        *functions += 1;
        read_function(&mut reader, starts, &mut last, &mut visit)
            .map_err(|what| TableError::malformed(file, PROBES, reader.at(), what))?;
    }
    Ok(())
}

/// The address that distances are from.
#[derive(Default)]
struct Last {
    address: Option<LinkAddr>,
    /// Whether the section is of the old form, which has no distances from functions.
    is_whole: bool,
}

/// Reads a function with all that was inlined into it, to any depth: the depth takes memory, but
/// none of the machine's stack.
fn read_function(
    reader: &mut Reader<'_>,
    starts: &HashMap<u64, LinkAddr>,
    last: &mut Last,
    visit: &mut impl FnMut(&PseudoProbe, &[InlineSite]),
) -> Result<(), Trouble> {
    let mut sites: Vec<InlineSite> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    loop {
        if let Some(caller) = open.last() {
            let index = reader.uleb128_u32()?;
            sites.push(InlineSite {
                caller: caller.function,
                index,
            });
        }
        let function = reader.u64()?;
        if open.is_empty() && !last.is_whole {
            last.address = starts.get(&function).copied();
        }
        let probes = reader.uleb128_u32()?;
        let inlined = reader.uleb128_u32()?;
        for _ in 0..reader.count(probes.into(), PROBE_SIZE)? {
            if let Some(probe) = read_probe(reader, function, starts, last)? {
                visit(&probe, &sites);
            }
        }
        reader.count(inlined.into(), INLINED_SIZE)?;
        open.push(Open {
            function,
            inlined_left: inlined,
        });
        // Up to the next function that has something inlined left to read.
        while let Some(innermost) = open.last_mut() {
            if innermost.inlined_left > 0 {
                innermost.inlined_left -= 1;
                break;
            }
            open.pop();
            sites.pop();
        }
        if open.is_empty() {
            return Ok(());
        }
    }
}

/// Reads a probe; nothing for a sentinel, which only says where a part of a function starts.
fn read_probe(
    reader: &mut Reader<'_>,
    function: u64,
    starts: &HashMap<u64, LinkAddr>,
    last: &mut Last,
) -> Result<Option<PseudoProbe>, Trouble> {
    let index = reader.uleb128_u32()?;
    let before = *reader;
    let bits = reader.u8()?;
    let attributes = (bits & ATTRIBUTES) >> 4;
    let kind = match bits & KIND {
        0 => ProbeKind::Block,
        1 => ProbeKind::IndirectCall,
        2 => ProbeKind::DirectCall,
        _ => {
            *reader = before;
            return Err("a probe is of a kind that is not known");
        }
    };
    let is_sentinel = attributes & SENTINEL != 0;
    if bits & IS_DISTANCE != 0 {
        let distance = reader.sleb128()?;
        last.address = last.address.map(|address| address.offset(distance));
    } else {
        // A sentinel has the number of a function here.
        if is_sentinel {
            last.address = starts.get(&reader.u64()?).copied();
        } else {
            last.address = Some(LinkAddr(reader.word()?));
            last.is_whole = true;
        }
    }
    let discriminator = if attributes & HAS_DISCRIMINATOR != 0 {
        reader.uleb128_u32()?
    } else {
        0
    };
    let probe = PseudoProbe {
        address: last.address,
        function,
        index,
        kind,
        discriminator,
    };
    Ok((!is_sentinel).then_some(probe))
}

/// The number of the function of this name, as LLVM makes it (`GlobalValue::getGUID`): the first eight bytes of
/// its MD5.
fn function_guid(name: &[u8]) -> u64 {
    let digest = Md5::digest(name);
    digest.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests;

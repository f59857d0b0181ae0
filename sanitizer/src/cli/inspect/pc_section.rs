//! PC sections that the command line describes, in `inspect`.

use std::io::Write;

use serde::Serialize;

use super::listed::write_line;
use super::source::Source;
use super::symbols::Symbol;
use crate::pcmeta::{PcConstant, PcSection};

/// What the sections of a name hold, as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PcSectionSummary {
    name: String,
    /// What the user has said of their entries.
    description: String,
    /// Their size in the file.
    bytes: usize,
    entries: usize,
    /// Those of code that the linker discarded.
    discarded: usize,
}

/// An entry.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EntryLine<'data> {
    file: &'data str,
    section: &'data str,
    address: u64,
    symbol: Option<Symbol<'data>>,
    /// Of a function: bytes.
    size: Option<u64>,
    constants: Vec<ConstantLine>,
}

/// A constant: a number, or of more than eight bytes these in hexadecimal, as they are in the file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ConstantLine {
    Number(u64),
    Wide(String),
}

pub(super) fn summary(section: &PcSection) -> PcSectionSummary {
    PcSectionSummary {
        name: section.description().name.clone(),
        description: section.description().to_string(),
        bytes: section.section_bytes(),
        entries: section.entry_count(),
        discarded: section.discarded(),
    }
}

/// What the sections hold, as a line of text.
pub(super) fn write_summary(section: &PcSection, out: &mut dyn Write) -> anyhow::Result<()> {
    let entries = section.entry_count();
    write!(out, "  {:19} {entries} entries", section.description().name)?;
    if section.discarded() > 0 {
        write!(out, " ({} of discarded code)", section.discarded())?;
    }
    writeln!(out)?;
    Ok(())
}

fn constant(constant: &PcConstant) -> ConstantLine {
    match constant {
        PcConstant::Number(number) => ConstantLine::Number(*number),
        PcConstant::Wide(bytes) => ConstantLine::Wide(hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes every entry.
pub(super) fn write_list(
    section: &PcSection,
    source: &Source<'_>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let name = &section.description().name;
    for entry in section.entries() {
        let symbol = source.symbol(entry.pc);
        if json {
            let line = EntryLine {
                file: source.name,
                section: name,
                address: entry.pc.0,
                symbol,
                size: entry.size,
                constants: entry.constants.iter().map(constant).collect(),
            };
            write_line("pc-section-entry", &line, out)?;
            continue;
        }
        write!(out, "  {name:8} {:#012x}", entry.pc)?;
        if let Some(size) = entry.size {
            write!(out, " {size:6}")?;
        }
        write!(out, " {}", symbol.unwrap_or_default())?;
        for constant in &entry.constants {
            match constant {
                PcConstant::Number(number) => write!(out, " {number:#x}")?,
                PcConstant::Wide(bytes) => write!(out, " {}", hex(bytes))?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

//! PC sections that the command line describes, in `inspect`.

use std::io::Write;

use serde_json::{Value, json};

use super::listed::write_line;
use super::source::Source;
use crate::pcmeta::{PcConstant, PcSection};

/// What the sections hold, as JSON.
pub(super) fn summary(section: &PcSection) -> Value {
    json!({
        "name": section.description().name,
        "description": section.description().to_string(),
        "bytes": section.section_bytes(),
        "entries": section.entry_count(),
        "discarded": section.discarded(),
    })
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

/// A constant as JSON: a number, or of more than eight bytes the bytes as they are in the file.
fn constant(constant: &PcConstant) -> Value {
    match constant {
        PcConstant::Number(number) => (*number).into(),
        PcConstant::Wide(bytes) => hex(bytes).into(),
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
            let line = json!({
                "type": "pc-section-entry",
                "file": source.name,
                "section": name,
                "address": entry.pc.0,
                "symbol": symbol,
                "size": entry.size,
                "constants": entry.constants.iter().map(constant).collect::<Vec<_>>(),
            });
            write_line(&line, out)?;
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

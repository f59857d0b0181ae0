//! Stack maps in `inspect`.

use std::io::Write;

use serde::Serialize;

use super::listed::{Listed, write_line};
use super::source::Source;
use super::symbols::Symbol;
use crate::image::Machine;
use crate::pcmeta::{LiveValue, Location, StackMapRecord, StackMaps, dwarf_register_name};

/// What the maps hold, as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StackMapsSummary {
    /// The size of the section.
    bytes: usize,
    maps: Vec<MapSummary>,
}

/// What a map holds.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MapSummary {
    version: u8,
    functions: usize,
    constants: usize,
    records: usize,
}

pub(super) fn summary(maps: &StackMaps) -> StackMapsSummary {
    let list = maps.maps().map(|map| MapSummary {
        version: map.header.version,
        functions: map.header.functions,
        constants: map.header.constants,
        records: map.header.records,
    });
    StackMapsSummary {
        bytes: maps.section_bytes(),
        maps: list.collect(),
    }
}

/// What the maps hold, as a line of text.
pub(super) fn write_summary(maps: &StackMaps, out: &mut dyn Write) -> anyhow::Result<()> {
    if maps.is_empty() {
        return Ok(());
    }
    let mut versions: Vec<u8> = maps.maps().map(|map| map.header.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let versions: Vec<String> = versions.iter().map(u8::to_string).collect();
    writeln!(
        out,
        "  stack maps {} records of {} functions, {} constants, version {}",
        maps.maps().map(|map| map.header.records).sum::<usize>(),
        maps.maps().map(|map| map.header.functions).sum::<usize>(),
        maps.maps().map(|map| map.header.constants).sum::<usize>(),
        versions.join(" and "),
    )?;
    Ok(())
}

/// Writes every map: its functions and constants, then its records.
pub(super) fn write_list(
    maps: &StackMaps,
    source: &Source<'_>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for (index, map) in maps.maps().enumerate() {
        if json {
            let functions = map.functions().map(|function| MapFunctionLine {
                address: function.address.0,
                symbol: source.symbol(function.address),
                stack_size: function.stack_size,
                record_count: function.record_count,
            });
            let line = MapLine {
                file: source.name,
                map: index,
                version: map.header.version,
                functions: Listed::new(functions),
                constants: Listed::new(map.constants()),
            };
            write_line("stack-map", &line, out)?;
        } else {
            for function in map.functions() {
                let (address, symbol) = (function.address, source.symbol(function.address));
                write!(out, "  frame    {address:#012x} ")?;
                match function.stack_size {
                    Some(size) => write!(out, "{size:6}")?,
                    None => write!(out, "varies")?,
                }
                writeln!(
                    out,
                    " v{} {}",
                    map.header.version,
                    symbol.unwrap_or_default()
                )?;
            }
        }
        for record in map.records() {
            if json {
                write_line("stack-map-record", &line(source, index, &record), out)?;
            } else {
                write_text(source, &record, out)?;
            }
        }
    }
    Ok(())
}

/// A map without its records.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MapLine<'data> {
    file: &'data str,
    /// Its number in the file.
    map: usize,
    version: u8,
    functions: Listed<'data, MapFunctionLine<'data>>,
    constants: Listed<'data, u64>,
}

/// A function of a map.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MapFunctionLine<'data> {
    address: u64,
    symbol: Option<Symbol<'data>>,
    /// Bytes of its frame, where that does not change while it runs.
    stack_size: Option<u64>,
    record_count: Option<u64>,
}

/// A record of a map.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RecordLine<'data> {
    file: &'data str,
    /// The number of its map.
    map: usize,
    id: u64,
    /// Where its function begins.
    function: Option<u64>,
    /// From there.
    offset: u32,
    address: Option<u64>,
    symbol: Option<Symbol<'data>>,
    flags: u16,
    /// The live values.
    locations: Listed<'data, LocationLine>,
    /// Registers that are needed after it.
    live_outs: Listed<'data, LiveOutLine>,
}

/// A live value; what its kind does not have is left out.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LocationLine {
    kind: LocationKindLine,
    /// Bytes.
    size: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<serde_json::Number>,
    #[serde(flatten)]
    place: Option<PlaceLine>,
}

/// What a live value is.
#[derive(Clone, Copy, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum LocationKindLine {
    /// In a register.
    #[default]
    Register,
    /// An address: register and offset.
    Direct,
    /// At an address: register and offset.
    Indirect,
    /// A constant.
    Constant,
    /// A constant of the map, by its index.
    ConstantIndex,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlaceLine {
    register: u16,
    register_name: String,
    offset: i32,
}

/// A register that is needed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LiveOutLine {
    register: u16,
    register_name: String,
    size: u8,
}

fn line<'a>(source: &'a Source<'a>, map: usize, record: &'a StackMapRecord) -> RecordLine<'a> {
    let machine = source.image.machine();
    let locations = record.locations.iter().map(move |location| {
        let place = |register, offset| {
            Some(PlaceLine {
                register,
                register_name: dwarf_register_name(machine, register),
                offset,
            })
        };
        let line = LocationLine {
            size: location.size,
            ..LocationLine::default()
        };
        match location.value {
            LiveValue::Register { register, offset } => LocationLine {
                kind: LocationKindLine::Register,
                place: place(register, offset),
                ..line
            },
            LiveValue::Direct { register, offset } => LocationLine {
                kind: LocationKindLine::Direct,
                place: place(register, offset),
                ..line
            },
            LiveValue::Indirect { register, offset } => LocationLine {
                kind: LocationKindLine::Indirect,
                place: place(register, offset),
                ..line
            },
            LiveValue::Constant(value) => LocationLine {
                kind: LocationKindLine::Constant,
                value: Some(value.into()),
                ..line
            },
            LiveValue::LargeConstant { index, value } => LocationLine {
                kind: LocationKindLine::ConstantIndex,
                index: Some(index),
                value: Some(value.into()),
                ..line
            },
        }
    });
    let live_outs = record.live_outs.iter().map(move |live_out| LiveOutLine {
        register: live_out.register,
        register_name: dwarf_register_name(machine, live_out.register),
        size: live_out.size,
    });
    RecordLine {
        file: source.name,
        map,
        id: record.id,
        function: record.function.map(|function| function.0),
        offset: record.offset,
        address: record.pc().map(|pc| pc.0),
        symbol: record.pc().and_then(|pc| source.symbol(pc)),
        flags: record.flags,
        locations: Listed::new(locations),
        live_outs: Listed::new(live_outs),
    }
}

fn write_text(
    source: &Source<'_>,
    record: &StackMapRecord,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let machine = source.image.machine();
    match record.pc() {
        Some(pc) => {
            let symbol = source.symbol(pc).unwrap_or_default();
            write!(out, "  live     {pc:#012x} {symbol}")?;
        }
        None => write!(out, "  live     function+{:#x}", record.offset)?,
    }
    write!(out, " id {}:", record.id)?;
    for location in &record.locations {
        write!(out, " {}", describe(machine, location))?;
    }
    if !record.live_outs.is_empty() {
        write!(out, "; needed after it:")?;
    }
    for live_out in &record.live_outs {
        let name = dwarf_register_name(machine, live_out.register);
        write!(out, " {name}:{}", live_out.size)?;
    }
    writeln!(out)?;
    Ok(())
}

/// A live value in a word, such as `[rbp-8]:4`: where it is, and how many bytes it has.
fn describe(machine: Machine, location: &Location) -> String {
    let name = |register| dwarf_register_name(machine, register);
    let size = location.size;
    match location.value {
        LiveValue::Register { register, .. } => format!("{}:{size}", name(register)),
        LiveValue::Direct { register, offset } => format!("{}{offset:+}:{size}", name(register)),
        LiveValue::Indirect { register, offset } => {
            format!("[{}{offset:+}]:{size}", name(register))
        }
        LiveValue::Constant(value) => format!("{value}:{size}"),
        LiveValue::LargeConstant { value, .. } => format!("{value:#x}:{size}"),
    }
}

//! Stack maps in `inspect`.

use std::io::Write;

use serde_json::{Value, json};

use super::tables::Source;
use crate::image::Machine;
use crate::pcmeta::{LiveValue, Location, StackMapRecord, StackMaps, dwarf_register_name};

/// What the maps hold, as JSON.
pub(super) fn summary(maps: &StackMaps) -> Value {
    let list = maps.maps().map(|map| {
        json!({
            "version": map.header.version,
            "functions": map.header.functions,
            "constants": map.header.constants,
            "records": map.header.records,
        })
    });
    json!({"bytes": maps.section_bytes(), "maps": list.collect::<Vec<_>>()})
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
            let functions = map.functions().map(|function| {
                json!({
                    "address": function.address.0,
                    "symbol": source.symbol(function.address),
                    "stack_size": function.stack_size,
                    "record_count": function.record_count,
                })
            });
            let line = json!({
                "type": "stack-map",
                "file": source.name,
                "map": index,
                "version": map.header.version,
                "functions": functions.collect::<Vec<_>>(),
                "constants": map.constants().collect::<Vec<_>>(),
            });
            writeln!(out, "{line}")?;
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
                writeln!(out, "{}", line(source, index, &record))?;
            } else {
                write_text(source, &record, out)?;
            }
        }
    }
    Ok(())
}

fn line(source: &Source<'_>, map: usize, record: &StackMapRecord) -> Value {
    let machine = source.image.machine();
    let locations = record.locations.iter().map(|location| {
        let mut value = json!({"size": location.size});
        let fields = match location.value {
            LiveValue::Register { register, offset } => ("register", Some((register, offset))),
            LiveValue::Direct { register, offset } => ("direct", Some((register, offset))),
            LiveValue::Indirect { register, offset } => ("indirect", Some((register, offset))),
            LiveValue::Constant(constant) => {
                value["value"] = constant.into();
                ("constant", None)
            }
            LiveValue::LargeConstant {
                index,
                value: constant,
            } => {
                value["index"] = index.into();
                value["value"] = constant.into();
                ("constant-index", None)
            }
        };
        value["kind"] = fields.0.into();
        if let (_, Some((register, offset))) = fields {
            value["register"] = register.into();
            value["register_name"] = dwarf_register_name(machine, register).into();
            value["offset"] = offset.into();
        }
        value
    });
    let live_outs = record.live_outs.iter().map(|live_out| {
        json!({
            "register": live_out.register,
            "register_name": dwarf_register_name(machine, live_out.register),
            "size": live_out.size,
        })
    });
    json!({
        "type": "stack-map-record",
        "file": source.name,
        "map": map,
        "id": record.id,
        "function": record.function.map(|function| function.0),
        "offset": record.offset,
        "address": record.pc().map(|pc| pc.0),
        "symbol": record.pc().and_then(|pc| source.symbol(pc)),
        "flags": record.flags,
        "locations": locations.collect::<Vec<_>>(),
        "live_outs": live_outs.collect::<Vec<_>>(),
    })
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

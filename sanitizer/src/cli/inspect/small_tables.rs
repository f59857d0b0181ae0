//! Tables with one line an entry in `inspect`: stack sizes, instructions that may fault, points
//! of coverage.

use std::io::Write;

use serde_json::{Value, json};

use super::listed::write_line;
use super::source::Source;
use crate::pcmeta::{Coverage, CoveragePoint, FaultKind, FaultMaps, StackSizes};

/// Stack sizes as JSON.
pub(super) fn stack_sizes(sizes: &StackSizes) -> Value {
    json!({"bytes": sizes.section_bytes(), "functions": sizes.sizes().len()})
}

/// Instructions that may fault as JSON.
pub(super) fn faults(maps: &FaultMaps) -> Value {
    json!({
        "bytes": maps.section_bytes(),
        "functions": maps.function_count(),
        "faults": maps.faults().len(),
    })
}

/// Points of coverage as JSON.
pub(super) fn coverage(coverage: &Coverage) -> Value {
    json!({"points": coverage.points().len(), "function_entries": function_entries(coverage)})
}

fn function_entries(coverage: &Coverage) -> usize {
    let points = coverage.points().iter();
    points.filter(|point| point.is_function_entry()).count()
}

/// A line of text for each of them that is there.
pub(super) fn write_summary(
    sizes: &StackSizes,
    maps: &FaultMaps,
    points: &Coverage,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if !sizes.is_empty() {
        writeln!(out, "  frames     {} stack sizes", sizes.sizes().len())?;
    }
    if !maps.is_empty() {
        let (faults, functions) = (maps.faults().len(), maps.function_count());
        writeln!(
            out,
            "  faults     {faults} instructions of {functions} functions"
        )?;
    }
    if !points.is_empty() {
        let (all, entries) = (points.points().len(), function_entries(points));
        writeln!(
            out,
            "  coverage   {all} points, {entries} of them entries of functions"
        )?;
    }
    Ok(())
}

/// Writes every entry of all three.
pub(super) fn write_list(
    sizes: &StackSizes,
    maps: &FaultMaps,
    points: &Coverage,
    source: &Source<'_>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for size in sizes.sizes() {
        let symbol = source.symbol(size.function);
        if json {
            let line = json!({
                "type": "stack-size",
                "file": source.name,
                "address": size.function.0,
                "symbol": symbol,
                "size": size.size,
            });
            write_line(&line, out)?;
        } else {
            let symbol = symbol.unwrap_or_default();
            writeln!(
                out,
                "  frame    {:#012x} {:6} {symbol}",
                size.function, size.size
            )?;
        }
    }
    for fault in maps.faults() {
        let kind = match fault.kind {
            FaultKind::Load => "load",
            FaultKind::LoadStore => "load-store",
            FaultKind::Store => "store",
        };
        let (symbol, handler) = (source.symbol(fault.pc()), source.symbol(fault.handler_pc()));
        if json {
            let line = json!({
                "type": "fault",
                "file": source.name,
                "address": fault.pc().0,
                "symbol": symbol,
                "function": fault.function.0,
                "kind": kind,
                "handler": fault.handler_pc().0,
                "handler_symbol": handler,
            });
            write_line(&line, out)?;
        } else {
            let (symbol, handler) = (symbol.unwrap_or_default(), handler.unwrap_or_default());
            writeln!(
                out,
                "  fault    {:#012x} {kind} {symbol}, goes on at {:#x} {handler}",
                fault.pc(),
                fault.handler_pc()
            )?;
        }
    }
    for (index, point) in points.points().iter().enumerate() {
        write_point(index, point, source, json, out)?;
    }
    Ok(())
}

fn write_point(
    index: usize,
    point: &CoveragePoint,
    source: &Source<'_>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let symbol = source.symbol(point.pc);
    if json {
        let line = json!({
            "type": "coverage-point",
            "file": source.name,
            "index": index,
            "address": point.pc.0,
            "symbol": symbol,
            "function_entry": point.is_function_entry(),
            "flags": point.flags,
        });
        write_line(&line, out)?;
    } else {
        let entry = if point.is_function_entry() {
            " entry"
        } else {
            ""
        };
        let symbol = symbol.unwrap_or_default();
        writeln!(
            out,
            "  point    {:#012x} #{index} {symbol}{entry}",
            point.pc
        )?;
    }
    Ok(())
}

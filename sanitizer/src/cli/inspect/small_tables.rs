//! Tables with one line an entry in `inspect`: stack sizes, instructions that may fault, points
//! of coverage.

use std::io::Write;

use serde::Serialize;

use super::listed::write_line;
use super::source::Source;
use super::symbols::Symbol;
use crate::pcmeta::{Coverage, CoveragePoint, FaultKind, FaultMaps, StackSizes};

/// Stack sizes as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StackSizesSummary {
    /// The size of their sections.
    bytes: usize,
    functions: usize,
}

/// Instructions that may fault as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FaultsSummary {
    /// The size of their section.
    bytes: usize,
    functions: usize,
    faults: usize,
}

/// Points of coverage as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CoverageSummary {
    points: usize,
    /// Those that are entries of functions.
    function_entries: usize,
}

/// The size of a function's frame.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StackSizeLine<'data> {
    file: &'data str,
    address: u64,
    symbol: Option<Symbol<'data>>,
    /// Bytes.
    size: u64,
}

/// An instruction that may fault.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FaultLine<'data> {
    file: &'data str,
    address: u64,
    symbol: Option<Symbol<'data>>,
    /// Where its function begins.
    function: u64,
    kind: FaultKindLine,
    /// Where the program goes on then.
    handler: u64,
    handler_symbol: Option<Symbol<'data>>,
}

/// What an instruction that may fault does.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum FaultKindLine {
    Load,
    LoadStore,
    Store,
}

impl FaultKindLine {
    const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::LoadStore => "load-store",
            Self::Store => "store",
        }
    }
}

/// A point of coverage.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PointLine<'data> {
    file: &'data str,
    /// Its number in the table.
    index: usize,
    address: u64,
    symbol: Option<Symbol<'data>>,
    /// It is the entry of a function.
    function_entry: bool,
    flags: u64,
}

pub(super) fn stack_sizes(sizes: &StackSizes) -> StackSizesSummary {
    StackSizesSummary {
        bytes: sizes.section_bytes(),
        functions: sizes.sizes().len(),
    }
}

pub(super) fn faults(maps: &FaultMaps) -> FaultsSummary {
    FaultsSummary {
        bytes: maps.section_bytes(),
        functions: maps.function_count(),
        faults: maps.faults().len(),
    }
}

pub(super) fn coverage(coverage: &Coverage) -> CoverageSummary {
    CoverageSummary {
        points: coverage.points().len(),
        function_entries: function_entries(coverage),
    }
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
            let line = StackSizeLine {
                file: source.name,
                address: size.function.0,
                symbol,
                size: size.size,
            };
            write_line("stack-size", &line, out)?;
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
            FaultKind::Load => FaultKindLine::Load,
            FaultKind::LoadStore => FaultKindLine::LoadStore,
            FaultKind::Store => FaultKindLine::Store,
        };
        let (symbol, handler) = (source.symbol(fault.pc()), source.symbol(fault.handler_pc()));
        if json {
            let line = FaultLine {
                file: source.name,
                address: fault.pc().0,
                symbol,
                function: fault.function.0,
                kind,
                handler: fault.handler_pc().0,
                handler_symbol: handler,
            };
            write_line("fault", &line, out)?;
        } else {
            let (symbol, handler) = (symbol.unwrap_or_default(), handler.unwrap_or_default());
            writeln!(
                out,
                "  fault    {:#012x} {} {symbol}, goes on at {:#x} {handler}",
                fault.pc(),
                kind.name(),
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
        let line = PointLine {
            file: source.name,
            index,
            address: point.pc.0,
            symbol,
            function_entry: point.is_function_entry(),
            flags: point.flags,
        };
        write_line("coverage-point", &line, out)?;
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

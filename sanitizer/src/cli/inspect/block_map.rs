//! Block maps in `inspect`.

use std::io::Write;

use serde_json::{Value, json};

use super::tables::Source;
use crate::pcmeta::{BlockMap, BlockMapFeatures, FunctionBlocks};

/// What the sections hold, as JSON.
pub(super) fn summary(map: &BlockMap) -> Value {
    let sections = map.sections().iter().map(|section| {
        json!({
            "name": section.name,
            "bytes": section.bytes,
            "versions": section.versions,
            "features": section.features.names().collect::<Vec<_>>(),
            "functions": section.functions,
            "blocks": section.blocks,
            "discarded": section.discarded,
        })
    });
    json!({"sections": sections.collect::<Vec<_>>()})
}

/// What the sections hold, as a line of text.
pub(super) fn write_summary(map: &BlockMap, out: &mut dyn Write) -> anyhow::Result<()> {
    if map.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&crate::pcmeta::BlockMapSummary) -> usize| -> usize {
        map.sections().iter().map(of).sum()
    };
    let (functions, blocks) = (sum(|s| s.functions), sum(|s| s.blocks));
    let discarded = sum(|s| s.discarded);
    let mut versions: Vec<u8> = (map.sections().iter())
        .flat_map(|section| section.versions.iter().copied())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    let versions: Vec<String> = versions.iter().map(u8::to_string).collect();
    let features =
        (map.sections().iter()).fold(BlockMapFeatures::default(), |all, s| all | s.features);
    write!(out, "  blocks     {blocks} of {functions} functions")?;
    if discarded > 0 {
        write!(out, " ({discarded} of discarded code)")?;
    }
    write!(out, ", version {}", versions.join(" and "))?;
    for name in features.names() {
        write!(out, ", {name}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Writes every function with its blocks.
pub(super) fn write_list(
    source: &Source<'_>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    BlockMap::for_each(source.image, |function| {
        if outcome.is_ok() {
            outcome = if json {
                writeln!(out, "{}", line(source, function)).map_err(Into::into)
            } else {
                write_text(source, function, out)
            };
        }
    })?;
    outcome
}

fn line(source: &Source<'_>, function: &FunctionBlocks) -> Value {
    let address = function.ranges().first().map(|range| range.base);
    let ranges = function.ranges().iter().map(|range| {
        let blocks = function
            .blocks(range)
            .iter()
            .zip(function.callsite_ends(range));
        let mut hashes = function.hashes(range).iter();
        let blocks = blocks.map(|(block, callsite_ends)| {
            json!({
                "id": block.id,
                "offset": block.offset,
                "size": block.size,
                "flags": block.flags.names().collect::<Vec<_>>(),
                "callsite_ends": callsite_ends,
                "hash": hashes.next(),
            })
        });
        json!({
            "address": range.base.0,
            "block_count": range.block_count,
            "blocks": blocks.collect::<Vec<_>>(),
        })
    });
    let profile = function.profiles().map(|(profile, successors)| {
        let successors = successors.iter().map(|successor| {
            json!({
                "id": successor.id,
                "probability": successor.probability,
                "post_link_frequency": successor.post_link_frequency,
            })
        });
        json!({
            "frequency": profile.frequency,
            "post_link_frequency": profile.post_link_frequency,
            "successors": successors.collect::<Vec<_>>(),
        })
    });
    json!({
        "type": "block-map-function",
        "file": source.name,
        "address": address.map(|address| address.0),
        "symbol": address.and_then(|address| source.symbol(address)),
        "version": function.version,
        "features": function.features.names().collect::<Vec<_>>(),
        "entry_count": function.entry_count,
        "ranges": ranges.collect::<Vec<_>>(),
        "profile": profile.collect::<Vec<_>>(),
    })
}

fn write_text(
    source: &Source<'_>,
    function: &FunctionBlocks,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut profiles = function.profiles();
    for range in function.ranges() {
        let symbol = source.symbol(range.base).unwrap_or_default();
        let (base, count) = (range.base, range.block_count);
        write!(
            out,
            "  blocks   {base:#012x} {count:6} v{} {symbol}",
            function.version
        )?;
        if let Some(count) = function.entry_count {
            write!(out, ", entered {count} times")?;
        }
        writeln!(out)?;
        let blocks = function
            .blocks(range)
            .iter()
            .zip(function.callsite_ends(range));
        let mut hashes = function.hashes(range).iter();
        for (block, callsite_ends) in blocks {
            let start = range.base.offset(block.offset.into());
            write!(
                out,
                "    block  {start:#012x} {:6} #{}",
                block.size, block.id
            )?;
            for flag in block.flags.names() {
                write!(out, " {flag}")?;
            }
            for end in callsite_ends {
                write!(out, " call-end+{end:#x}")?;
            }
            if let Some(hash) = hashes.next() {
                write!(out, " hash {hash:#018x}")?;
            }
            if let Some((profile, successors)) = profiles.next() {
                if let Some(frequency) = profile.frequency {
                    write!(out, " frequency {frequency}")?;
                }
                if let Some(frequency) = profile.post_link_frequency {
                    write!(out, " after linking {frequency}")?;
                }
                for successor in successors {
                    // `BranchProbability` counts in units of 2^-31.
                    let percent = f64::from(successor.probability) * 100.0 / f64::from(1u32 << 31);
                    write!(out, " to #{} {percent:.1} %", successor.id)?;
                    if let Some(frequency) = successor.post_link_frequency {
                        write!(out, " ({frequency} after linking)")?;
                    }
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

//! Block maps in `inspect`.

use std::io::Write;

use serde::Serialize;

use super::listed::{Listed, write_line};
use super::source::Source;
use super::symbols::Symbol;
use crate::pcmeta::{BlockMap, BlockMapFeatures, BlockMapSummary, FunctionBlocks};

/// What the sections hold, as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BlockMapLine {
    sections: Vec<BlockMapSectionLine>,
}

/// A section of a block map.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BlockMapSectionLine {
    name: String,
    /// Its size in the file.
    bytes: u64,
    /// The versions of its entries.
    versions: Vec<u8>,
    /// The features that any of its entries has.
    features: Vec<&'static str>,
    functions: usize,
    blocks: usize,
    /// Blocks of code that the linker discarded.
    discarded: usize,
}

pub(super) fn summary(sections: &[BlockMapSummary]) -> BlockMapLine {
    let sections = sections.iter().map(|section| BlockMapSectionLine {
        name: section.name.clone(),
        bytes: section.bytes,
        versions: section.versions.clone(),
        features: section.features.names().collect(),
        functions: section.functions,
        blocks: section.blocks,
        discarded: section.discarded,
    });
    BlockMapLine {
        sections: sections.collect(),
    }
}

/// What the sections hold, as a line of text.
pub(super) fn write_summary(
    sections: &[BlockMapSummary],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if sections.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&BlockMapSummary) -> usize| -> usize { sections.iter().map(of).sum() };
    let (functions, blocks) = (sum(|s| s.functions), sum(|s| s.blocks));
    let discarded = sum(|s| s.discarded);
    let mut versions: Vec<u8> = (sections.iter())
        .flat_map(|section| section.versions.iter().copied())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    let versions: Vec<String> = versions.iter().map(u8::to_string).collect();
    let features = (sections.iter()).fold(BlockMapFeatures::default(), |all, s| all | s.features);
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
    BlockMap::for_each(source.files.blocks(), |function| {
        if outcome.is_ok() {
            outcome = if json {
                write_line("block-map-function", &line(source, function), out).map_err(Into::into)
            } else {
                write_text(source, function, out)
            };
        }
    })
    // The summary has told it.
    .unwrap_or_default();
    outcome
}

/// A function with its blocks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BlockMapFunctionLine<'data> {
    file: &'data str,
    address: Option<u64>,
    symbol: Option<Symbol<'data>>,
    version: u8,
    features: Listed<'data, &'static str>,
    /// How often it was entered when it was profiled.
    entry_count: Option<u64>,
    ranges: Listed<'data, RangeLine<'data>>,
    /// Of each block in their order, where it was profiled.
    profile: Listed<'data, ProfileLine<'data>>,
}

/// A piece of code that a function is in.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RangeLine<'data> {
    address: u64,
    block_count: u32,
    blocks: Listed<'data, BlockLine<'data>>,
}

/// A basic block.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BlockLine<'data> {
    id: u32,
    /// From the beginning of its range.
    offset: u32,
    /// Bytes.
    size: u32,
    flags: Listed<'data, &'static str>,
    /// Where its calls end, from its beginning.
    callsite_ends: &'data [u32],
    hash: Option<u64>,
}

/// How often a block was executed when it was profiled.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfileLine<'data> {
    frequency: Option<u64>,
    post_link_frequency: Option<u32>,
    successors: Listed<'data, SuccessorLine>,
}

/// A block that comes after another.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SuccessorLine {
    id: u32,
    /// In units of 2^-31.
    probability: u32,
    post_link_frequency: Option<u32>,
}

fn line<'a>(source: &'a Source<'a>, function: &'a FunctionBlocks) -> BlockMapFunctionLine<'a> {
    let address = function.ranges().first().map(|range| range.base);
    let ranges = function.ranges().iter().map(|range| {
        let blocks = (function.blocks(range).iter()).zip(function.callsite_ends(range));
        let mut hashes = function.hashes(range).iter();
        let blocks = blocks.map(move |(block, callsite_ends)| BlockLine {
            id: block.id,
            offset: block.offset,
            size: block.size,
            flags: Listed::new(block.flags.names()),
            callsite_ends,
            hash: hashes.next().copied(),
        });
        RangeLine {
            address: range.base.0,
            block_count: range.block_count,
            blocks: Listed::new(blocks),
        }
    });
    let profile = function.profiles().map(|(profile, successors)| {
        let successors = successors.iter().map(|successor| SuccessorLine {
            id: successor.id,
            probability: successor.probability,
            post_link_frequency: successor.post_link_frequency,
        });
        ProfileLine {
            frequency: profile.frequency,
            post_link_frequency: profile.post_link_frequency,
            successors: Listed::new(successors),
        }
    });
    BlockMapFunctionLine {
        file: source.name,
        address: address.map(|address| address.0),
        symbol: address.and_then(|address| source.symbol(address)),
        version: function.version,
        features: Listed::new(function.features.names()),
        entry_count: function.entry_count,
        ranges: Listed::new(ranges),
        profile: Listed::new(profile),
    }
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

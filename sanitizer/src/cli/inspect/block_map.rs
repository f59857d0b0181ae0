//! Block maps in `inspect`.

use std::io::Write;

use serde::Serialize;
use serde_json::{Value, json};

use super::listed::{Listed, write_line};
use super::source::Source;
use super::symbols::Symbol;
use crate::pcmeta::{BlockMap, BlockMapFeatures, BlockMapSummary, FunctionBlocks};

/// What the sections hold, as JSON.
pub(super) fn summary(sections: &[BlockMapSummary]) -> Value {
    let sections = sections.iter().map(|section| {
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
                write_line(&line(source, function), out).map_err(Into::into)
            } else {
                write_text(source, function, out)
            };
        }
    })
    // The summary has told it.
    .unwrap_or_default();
    outcome
}

/// A function as a line of JSON.
#[derive(Serialize)]
#[serde(bound = "Listed<F>: Serialize, Listed<R>: Serialize, Listed<P>: Serialize")]
struct FunctionLine<'data, F, R, P> {
    #[serde(rename = "type")]
    kind: &'static str,
    file: &'data str,
    address: Option<u64>,
    symbol: Option<Symbol<'data>>,
    version: u8,
    features: Listed<F>,
    entry_count: Option<u64>,
    ranges: Listed<R>,
    profile: Listed<P>,
}

#[derive(Serialize)]
#[serde(bound = "Listed<B>: Serialize")]
struct RangeLine<B> {
    address: u64,
    block_count: u32,
    blocks: Listed<B>,
}

#[derive(Serialize)]
#[serde(bound = "Listed<F>: Serialize")]
struct BlockLine<'data, F> {
    id: u32,
    offset: u32,
    size: u32,
    flags: Listed<F>,
    callsite_ends: &'data [u32],
    hash: Option<u64>,
}

#[derive(Serialize)]
#[serde(bound = "Listed<S>: Serialize")]
struct ProfileLine<S> {
    frequency: Option<u64>,
    post_link_frequency: Option<u32>,
    successors: Listed<S>,
}

#[derive(Serialize)]
struct SuccessorLine {
    id: u32,
    probability: u32,
    post_link_frequency: Option<u32>,
}

fn line(source: &Source<'_>, function: &FunctionBlocks) -> impl Serialize {
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
    FunctionLine {
        kind: "block-map-function",
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

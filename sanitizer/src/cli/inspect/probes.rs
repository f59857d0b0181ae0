//! Pseudo probes in `inspect`.

use std::io::Write;

use serde::Serialize;

use crate::report::clean::clean;

use super::listed::write_line;
use super::source::Source;
use super::symbols::Symbol;
use crate::pcmeta::{InlineSite, ProbeKind, PseudoProbe, PseudoProbes};

/// What the sections hold, as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ProbesSummary {
    /// Their size in the file.
    bytes: usize,
    functions: usize,
    probes: usize,
}

/// A probe.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ProbeLine<'data> {
    file: &'data str,
    /// The instruction that it is at, where the file tells.
    address: Option<u64>,
    symbol: Option<Symbol<'data>>,
    /// The number of the function of the source that it is of.
    function: u64,
    function_name: Option<&'data str>,
    /// Its number in that function.
    index: u32,
    kind: ProbeKindLine,
    /// Tells copies of it apart.
    discriminator: u32,
    /// Where the function was inlined, from the outside in.
    inlined: Vec<InlineSiteLine<'data>>,
}

/// What a probe stands for.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum ProbeKindLine {
    Block,
    IndirectCall,
    DirectCall,
}

impl ProbeKindLine {
    const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::IndirectCall => "indirect-call",
            Self::DirectCall => "direct-call",
        }
    }
}

/// Where a function was inlined.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InlineSiteLine<'data> {
    /// The number of the function that it was inlined into.
    caller: u64,
    caller_name: Option<&'data str>,
    /// The number of the probe of the call.
    index: u32,
}

pub(super) fn summary(probes: &PseudoProbes) -> ProbesSummary {
    ProbesSummary {
        bytes: probes.section_bytes(),
        functions: probes.function_count(),
        probes: probes.probe_count(),
    }
}

/// What the sections hold, as a line of text.
pub(super) fn write_summary(probes: &PseudoProbes, out: &mut dyn Write) -> anyhow::Result<()> {
    if !probes.is_empty() {
        let (all, functions) = (probes.probe_count(), probes.function_count());
        writeln!(out, "  probes     {all} of {functions} functions")?;
    }
    Ok(())
}

/// Writes every probe.
pub(super) fn write_list(
    probes: &PseudoProbes,
    source: &Source<'_>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    PseudoProbes::for_each(source.files.probes(), |probe, sites| {
        if outcome.is_ok() {
            outcome = if json {
                write_line("pseudo-probe", &line(probes, source, probe, sites), out)
                    .map_err(Into::into)
            } else {
                write_text(probes, probe, sites, out)
            };
        }
    })
    // The summary has told it.
    .unwrap_or_default();
    outcome
}

fn name(probes: &PseudoProbes, number: u64) -> Option<&str> {
    probes.function(number).map(|function| &*function.name)
}

const fn kind(probe: &PseudoProbe) -> ProbeKindLine {
    match probe.kind {
        ProbeKind::Block => ProbeKindLine::Block,
        ProbeKind::IndirectCall => ProbeKindLine::IndirectCall,
        ProbeKind::DirectCall => ProbeKindLine::DirectCall,
    }
}

fn line<'a>(
    probes: &'a PseudoProbes,
    source: &'a Source<'a>,
    probe: &PseudoProbe,
    sites: &[InlineSite],
) -> ProbeLine<'a> {
    let sites = sites.iter().map(|site| InlineSiteLine {
        caller: site.caller,
        caller_name: name(probes, site.caller),
        index: site.index,
    });
    ProbeLine {
        file: source.name,
        address: probe.address.map(|address| address.0),
        symbol: probe.address.and_then(|address| source.symbol(address)),
        function: probe.function,
        function_name: name(probes, probe.function),
        index: probe.index,
        kind: kind(probe),
        discriminator: probe.discriminator,
        inlined: sites.collect(),
    }
}

fn write_text(
    probes: &PseudoProbes,
    probe: &PseudoProbe,
    sites: &[InlineSite],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let function = |number| match name(probes, number) {
        Some(name) => clean(name).into_owned(),
        None => format!("{number:#x}"),
    };
    match probe.address {
        Some(address) => write!(out, "  probe    {address:#012x}")?,
        None => write!(out, "  probe    at an unknown place")?,
    }
    write!(
        out,
        " {} {}:{}",
        kind(probe).name(),
        function(probe.function),
        probe.index
    )?;
    if probe.discriminator > 0 {
        write!(out, ".{}", probe.discriminator)?;
    }
    for site in sites.iter().rev() {
        write!(out, " in {}:{}", function(site.caller), site.index)?;
    }
    writeln!(out)?;
    Ok(())
}

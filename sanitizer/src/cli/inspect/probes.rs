//! Pseudo probes in `inspect`.

use std::io::Write;

use serde_json::{Value, json};

use crate::report::clean::clean;

use super::listed::write_line;
use super::source::Source;
use crate::pcmeta::{InlineSite, ProbeKind, PseudoProbe, PseudoProbes};

/// What the sections hold, as JSON.
pub(super) fn summary(probes: &PseudoProbes) -> Value {
    json!({
        "bytes": probes.section_bytes(),
        "functions": probes.function_count(),
        "probes": probes.probe_count(),
    })
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
                write_line(&line(probes, source, probe, sites), out).map_err(Into::into)
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

fn kind(probe: &PseudoProbe) -> &'static str {
    match probe.kind {
        ProbeKind::Block => "block",
        ProbeKind::IndirectCall => "indirect-call",
        ProbeKind::DirectCall => "direct-call",
    }
}

fn line(
    probes: &PseudoProbes,
    source: &Source<'_>,
    probe: &PseudoProbe,
    sites: &[InlineSite],
) -> Value {
    let sites = sites.iter().map(|site| {
        json!({
            "caller": site.caller,
            "caller_name": name(probes, site.caller),
            "index": site.index,
        })
    });
    json!({
        "type": "pseudo-probe",
        "file": source.name,
        "address": probe.address.map(|address| address.0),
        "symbol": probe.address.and_then(|address| source.symbol(address)),
        "function": probe.function,
        "function_name": name(probes, probe.function),
        "index": probe.index,
        "kind": kind(probe),
        "discriminator": probe.discriminator,
        "inlined": sites.collect::<Vec<_>>(),
    })
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
        kind(probe),
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

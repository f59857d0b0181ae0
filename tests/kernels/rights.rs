//! What an ordinary user can do, and what is said to whom may do nothing.

use std::process::Output;

use anyhow::{Context as _, Result, bail, ensure};
use gwp_race_tests::{Who, binary::gwp_race};
use serde_json::Value;

use crate::{
    catching::{Came, Way, watch},
    kernel::{Kernel, set},
};

const NOTHING: Who = Who::OrdinaryUser(&[]);
const PARANOID: &str = "kernel.perf_event_paranoid";

/// What `doctor` says to somebody.
pub fn doctor_of(who: Who) -> Result<Output> {
    let mut command = who.command(&gwp_race());
    command
        .args(["doctor", "--json"])
        .output()
        .context("starting gwp-race")
}

/// What is not as it should be, with the status.
fn complaints(output: &Output) -> Result<Vec<String>> {
    let findings: Value = serde_json::from_slice(&output.stdout).context("doctor's findings")?;
    let checks = findings.get("checks").and_then(Value::as_array);
    let complaint = |check: &Value| {
        let field = |name| check.get(name).and_then(Value::as_str).unwrap_or_default();
        (field("status") != "ok").then(|| {
            format!(
                "{} {}: {} -> {}",
                field("status"),
                field("name"),
                field("found"),
                field("mend")
            )
        })
    };
    Ok(checks.into_iter().flatten().filter_map(complaint).collect())
}

/// `doctor` says that races can be caught.
pub fn doctor(_: &Kernel) -> Result<String> {
    let output = doctor_of(Who::Ourselves)?;
    let complaints = complaints(&output)?;
    eprintln!("doctor: {complaints:#?}");
    ensure!(output.status.success(), "{}", complaints.join("; "));
    Ok(match complaints.as_slice() {
        [] => "no complaint".to_owned(),
        some => {
            let names = some.iter().filter_map(|text| text.split(':').next());
            names.collect::<Vec<_>>().join(", ")
        }
    })
}

/// `doctor` says that they cannot, and which kernel can.
pub fn doctor_refuses(_: &Kernel) -> Result<String> {
    let output = doctor_of(Who::Ourselves)?;
    let complaints = complaints(&output)?.join("; ");
    eprintln!("doctor: {complaints}");
    ensure!(
        output.status.code() == Some(1),
        "it says that races can be caught: {complaints}"
    );
    ensure!(
        complaints.contains("fail kernel") && complaints.contains("install a kernel"),
        "{complaints}"
    );
    Ok("it says which kernel to install".to_owned())
}

const TWO: Who = Who::OrdinaryUser(&["bpf", "perfmon"]);

/// A user with the two capabilities needs nothing else, where Debian's own setting is not in force.
pub fn two_capabilities(kernel: &Kernel) -> Result<String> {
    set(PARANOID, "2")?;
    let with_gates = kernel.lockdown != "confidentiality";
    both(TWO, with_gates)
}

/// Debian's setting binds him as well, whose kernels ask for CAP_SYS_ADMIN; he is told what would help.
pub fn two_capabilities_paranoid_3(_: &Kernel) -> Result<String> {
    refused(TWO)
}

/// A user without any can do without eBPF.
pub fn paranoid_2(_: &Kernel) -> Result<String> {
    set(PARANOID, "2")?;
    both(NOTHING, false)
}

fn both(who: Who, with_gates: bool) -> Result<String> {
    let mut told = Vec::new();
    for way in [Way::Run, Way::Attach] {
        let came = watch(who, way, &[])?;
        if let Came::Refused(_, said) = &came {
            bail!("refused: {said}");
        }
        ensure!(came.has_gates() == with_gates, "{}", came.told());
        told.push(came.told());
    }
    Ok(told.join("; "))
}

/// With Debian's setting he can do nothing, and is told what would help.
pub fn paranoid_3(_: &Kernel) -> Result<String> {
    refused(NOTHING)
}

fn refused(who: Who) -> Result<String> {
    set(PARANOID, "3")?;
    for (way, code) in [(Way::Run, 125), (Way::Attach, 1)] {
        let Came::Refused(refused, said) = watch(who, way, &[])? else {
            bail!("it works, which was not expected");
        };
        eprintln!("perf_event_paranoid 3: {said}");
        ensure!(refused == Some(code), "exit code {refused:?}: {said}");
        ensure!(
            said.contains("perf_event_paranoid"),
            "the setting is not named: {said}"
        );
    }
    let advice = complaints(&doctor_of(who)?)?.join("; ");
    ensure!(
        advice.contains("sysctl kernel.perf_event_paranoid=2"),
        "doctor: {advice}"
    );
    set(PARANOID, "2")?;
    Ok("refused; error and `doctor` name the setting".to_owned())
}

/// Without CAP_PERFMON there are no gates.
pub fn bpf_alone(_: &Kernel) -> Result<String> {
    set(PARANOID, "2")?;
    without_gates(Who::OrdinaryUser(&["bpf"]))
}

/// Whatever an ordinary user may do with eBPF, gates are not among it.
pub fn unprivileged_bpf(value: &str) -> Result<String> {
    set(PARANOID, "2")?;
    set("kernel.unprivileged_bpf_disabled", value)?;
    without_gates(NOTHING)
}

fn without_gates(who: Who) -> Result<String> {
    let came = watch(who, Way::Run, &[])?;
    if let Came::Refused(_, said) = &came {
        bail!("refused: {said}");
    }
    ensure!(!came.has_gates(), "{}", came.told());
    Ok(came.told())
}

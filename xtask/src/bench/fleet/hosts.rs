//! Many machines that share what they learn: machines and programs are simulated, what they are watched by, what they send and who collects it is real.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::picture;
use crate::{
    bench::{detection::report_of_a_race, machine, table::Table},
    build, paths,
    steps::{cargo, shown},
};

/// How to simulate.
#[derive(clap::Args)]
pub struct Hosts {
    /// Simulate so many machines that share what they learn, instead of watching this one.
    #[arg(long)]
    pub hosts: Option<usize>,
    /// Hours that pass for them.
    #[arg(long, default_value_t = 8.0, requires = "hosts")]
    hours: f64,
    /// What all chance follows from.
    #[arg(long, default_value_t = 1, requires = "hosts")]
    seed: u64,
    /// Machines that find the same race at the same time, at the end.
    #[arg(long, default_value_t = 10_000, requires = "hosts")]
    rollout: usize,
    /// Where the collector keeps what it takes: an empty database, postgres://HOST/DATABASE; a file of its own without it.
    #[arg(long, requires = "hosts")]
    hosts_store: Option<String>,
}

/// Names and colours of both ways in the picture.
const POOLED: (&str, &str) = ("sharing what they learn", "#2060c0");
const ALONE: (&str, &str) = ("each by itself", "#d06020");
/// Parts of all races, in percent, of which it is told when they were found.
const PARTS: [usize; 3] = [25, 50, 75];
const HOUR_S: f64 = 3600.0;

/// Simulates.
pub fn run(options: &Hosts, hosts: usize) -> Result<()> {
    ensure!(
        hosts > 0 && options.hours > 0.0,
        "--hosts and --hours must be above 0"
    );
    let gwp_race = build::run(true)?;
    let folder = paths::target().join("bench/hosts");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let report = report_of_a_race(&gwp_race)?;
    let store = options.hosts_store.clone();
    let store = store.unwrap_or_else(|| format!("sqlite:{}", folder.join("races.db").display()));
    let mut command = cargo();
    command.args(["run", "--release", "--package", "gwp-race"]);
    command.args(["--example", "bench_hosts", "--"]);
    command.arg(&gwp_race).arg(&store).arg(&report);
    command.args([hosts.to_string(), options.hours.to_string()]);
    command.args([options.seed.to_string(), options.rollout.to_string()]);
    println!("==> {}", shown(&command));
    let done = command.stderr(Stdio::inherit()).output()?;
    ensure!(
        done.status.success(),
        "the simulation has failed ({})",
        done.status
    );
    let told: Value = serde_json::from_slice(&done.stdout).context("what it says")?;
    let evidence = records(&gwp_race, &store, &told)?;
    fs::remove_dir_all(&folder)?;
    publish(options, hosts, &told, evidence)
}

/// How many records are kept of the race of the rollout.
fn records(gwp_race: &Path, store: &str, told: &Value) -> Result<Option<usize>> {
    let machines = told["rollout"]["machines"].as_u64();
    let race = told["rollout"]["race"].as_str();
    let Some(race) = race.filter(|_| machines > Some(0)) else {
        return Ok(None);
    };
    let shown = Command::new(gwp_race)
        .args(["races", "show", race, "--store", store, "--format", "json"])
        .output()?;
    ensure!(
        shown.status.success(),
        "races show: {}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let shown: Value = serde_json::from_slice(&shown.stdout).context("what races show says")?;
    let reports = shown["reports"].as_array();
    Ok(Some(
        reports.context("races show tells of no reports")?.len(),
    ))
}

fn publish(options: &Hosts, hosts: usize, told: &Value, evidence: Option<usize>) -> Result<()> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let races = told["races"].as_u64().unwrap_or_default() as usize;
    let times = |way: &str| -> Vec<f64> {
        let times = told[way]["times"].as_array();
        times.map_or_else(Vec::new, |times| times.iter().map(number).collect())
    };
    let [pooled, alone] = ["pooled", "alone"].map(times);
    let mut description = machine::description();
    description.push(format!(
        "{hosts} simulated machines, of each a process that uses a tenth of a processor; its {} sites have {races} races that at least one of them executes; {} hours, seed {}.",
        told["sites"], options.hours, options.seed
    ));
    let mut by_part = Table::new(&["races found", POOLED.0, ALONE.0, "how much sooner"]);
    for part in PARTS {
        let wanted = (races * part).div_ceil(100);
        let [one, other] = [&pooled, &alone].map(|times| nth(times, wanted));
        let hours = |time: Option<f64>| {
            time.map_or_else(
                || format!("after {} h", options.hours),
                |time| format!("{:.2} h", time / HOUR_S),
            )
        };
        let sooner = one.zip(other).map_or_else(
            || "-".to_owned(),
            |(one, other)| format!("{:.2} times", other / one),
        );
        by_part.row(vec![
            format!("{part} % ({wanted})"),
            hours(one),
            hours(other),
            sooner,
        ]);
    }
    by_part.row(vec![
        "at the end".to_owned(),
        pooled.len().to_string(),
        alone.len().to_string(),
        String::new(),
    ]);
    by_part.publish(&format!("hosts-{hosts}-races"), &description)?;

    let mut costs = Table::new(&["", ""]);
    let way = &told["pooled"];
    let rollout = &told["rollout"];
    let kib = |value: &Value| format!("{:.1} KiB", number(value) / 1024.0);
    let seconds = |value: &Value| format!("{:.2} s", number(value));
    let share = |part: f64, whole: f64| format!("{:.3} %", part / whole * 100.0);
    for (what, value) in [
        ("leases", way["leases"].to_string()),
        ("messages", way["messages"].to_string()),
        ("sent, a machine and day", kib(&way["sent_per_host_day"])),
        ("told, a machine and day", kib(&way["told_per_host_day"])),
        ("the largest file of hints", kib(&way["hints_bytes"])),
        ("functions and races sent", way["rows"].to_string()),
        (
            "of them a second, one machine sending after the other",
            format!("{:.0}", number(&way["rows"]) / number(&way["sending_s"])),
        ),
        (
            "CPU time of the collector",
            seconds(&way["collector_cpu_s"]),
        ),
        (
            "that is of a processor, in the time that has passed for the machines",
            share(number(&way["collector_cpu_s"]), options.hours * HOUR_S),
        ),
        ("machines in the rollout", rollout["machines"].to_string()),
        (
            "bytes of a message of it",
            rollout["message_bytes"].to_string(),
        ),
        ("it took", seconds(&rollout["took_s"])),
        (
            "CPU time of the collector for it",
            seconds(&rollout["collector_cpu_s"]),
        ),
        (
            "messages that were to come again later",
            rollout["later"].to_string(),
        ),
        (
            "records of its race that are kept",
            evidence.map_or_else(|| "-".to_owned(), |count| count.to_string()),
        ),
    ] {
        costs.row(vec![what.to_owned(), value]);
    }
    costs.publish(&format!("hosts-{hosts}"), &description)?;
    let curves = [
        (POOLED.0, POOLED.1, pooled.as_slice()),
        (ALONE.0, ALONE.1, alone.as_slice()),
    ];
    let picture = paths::target().join(format!("bench/hosts-{hosts}.png"));
    picture::draw(&curves, options.hours * HOUR_S, races, &picture)
}

/// When so many were found.
fn nth(times: &[f64], wanted: usize) -> Option<f64> {
    times.get(wanted.checked_sub(1)?).copied()
}

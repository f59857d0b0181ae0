//! `cargo xtask bench overhead`: whether `--max-overhead` is kept, as measured from outside: for threads that compute, idle,
//! wait for locks, or come and go, for several numbers of them and several budgets.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::{
    machine,
    statistics::{median, quantile},
    table::Table,
    throughput,
};
use crate::{build, fixture};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs, plain and watched, for each budget; as many of two plain runs.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Seconds that each half of a pair runs, after a first one.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Budgets, percent.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    budgets: Vec<f64>,
    /// What the programs do.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "compute,pool,churn"
    )]
    workloads: Vec<Workload>,
    /// Numbers of threads of those that have a fixed number.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,200")]
    threads: Vec<usize>,
    /// For what part of the time the threads of `compute` sleep, percent.
    #[arg(long, value_delimiter = ',', default_value = "0,50,95")]
    idle: Vec<u32>,
    /// How the brief threads of `churn` come: microseconds that each works, and pairs of them a second (0: as fast as can be).
    #[arg(long, value_delimiter = ',', value_parser = brief, default_value = "0:0,100:0,1000:0,0:1000")]
    brief: Vec<Brief>,
    /// Run gwp-race without any capability, so without eBPF.
    #[arg(long)]
    without_ebpf: bool,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Workload {
    /// Threads that compute and share nothing.
    Compute,
    /// Threads that change a shared table under a lock now and then.
    Pool,
    /// Pairs of threads that are created, work for a moment and end, beside two that compute.
    Churn,
}

/// How brief threads come.
#[derive(Clone, Copy, Debug)]
struct Brief {
    work_us: u32,
    pairs_a_second: u32,
}

fn brief(text: &str) -> Result<Brief, String> {
    let parts = text.split_once(':');
    let numbers = parts.and_then(|(work, rate)| Some((work.parse().ok()?, rate.parse().ok()?)));
    let (work_us, pairs_a_second) = numbers.ok_or("write MICROSECONDS:PAIRS, as in 100:0")?;
    Ok(Brief {
        work_us,
        pairs_a_second,
    })
}

/// One program, as it is run.
struct Case {
    what: String,
    program: PathBuf,
    /// Behind the seconds.
    arguments: Vec<String>,
}

impl Case {
    fn command(&self, mut command: Command, seconds: f64) -> Command {
        command.arg(seconds.to_string()).args(&self.arguments);
        command
    }
}

/// What setpriv(1) takes a program's rights away with.
const NO_RIGHTS: [&str; 3] = [
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--bounding-set=-all",
];
/// Points above the budget that count as keeping it.
const TOLERANCE: f64 = 0.5;

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let mut table = Table::new(&[
        "program",
        "--max-overhead %",
        "median loss %",
        "quartiles %",
        "two plain runs differ by %",
        "kept",
    ]);
    for case in cases(options)? {
        let plain = || case.command(Command::new(&case.program), options.seconds);
        let losses = |name: &str, watched: &dyn Fn() -> Command| -> Result<Vec<f64>> {
            let measure = |pair| {
                let loss = throughput::loss(&mut plain(), &mut watched(), pair)?;
                println!(
                    "{}, {name}: pair {pair} of {}: {loss:+.2} %",
                    case.what, options.pairs
                );
                Ok(loss)
            };
            (1..=options.pairs).map(measure).collect()
        };
        // Half the width of the middle 95 %.
        let noise = losses("two plain runs", &plain)?;
        let noise = (quantile(&noise, 0.975) - quantile(&noise, 0.025)) / 2.0;
        for &budget in &options.budgets {
            let watched = || {
                let mut command = gwp_race_run(options, &gwp_race, budget);
                command.arg(&case.program);
                case.command(command, options.seconds)
            };
            let losses = losses(&format!("{budget} %"), &watched)?;
            let kept = median(&losses) <= budget + TOLERANCE.max(noise);
            table.row(vec![
                case.what.clone(),
                budget.to_string(),
                format!("{:+.2}", median(&losses)),
                format!(
                    "{:+.2} to {:+.2}",
                    quantile(&losses, 0.25),
                    quantile(&losses, 0.75)
                ),
                format!("{noise:.2}"),
                if kept { "yes" } else { "no" }.to_owned(),
            ]);
        }
    }
    let mut description = machine::description();
    description.push(format!(
        "Kept: the median of {} pairs is at most {TOLERANCE} points above the budget, or as much \
         above it as 95 % of pairs of plain runs differ by at most, if that is more. The first second, in which \
         gwp-race starts, is not counted.",
        options.pairs
    ));
    let name = if options.without_ebpf {
        "overhead-without-ebpf"
    } else {
        "overhead"
    };
    table.publish(name, &description)
}

/// `gwp-race run ... --`, with this budget.
fn gwp_race_run(options: &Options, gwp_race: &Path, budget: f64) -> Command {
    let mut command = if options.without_ebpf {
        let mut command = Command::new("setpriv");
        command.args(NO_RIGHTS).arg(gwp_race);
        command
    } else {
        Command::new(gwp_race)
    };
    command
        .args(["run", "--max-overhead", &format!("{budget}%")])
        .args(["--output", "/dev/null", "--"]);
    command
}

/// The programs that are wanted.
fn cases(options: &Options) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for workload in &options.workloads {
        let name = match workload {
            Workload::Compute => "compute",
            Workload::Pool => "pool",
            Workload::Churn => "churn",
        };
        let program = fixture::compile("bench", name)?;
        let mut add = |what, arguments| {
            cases.push(Case {
                what,
                program: program.clone(),
                arguments,
            });
        };
        match workload {
            Workload::Compute => {
                for threads in &options.threads {
                    for idle in &options.idle {
                        let what = match idle {
                            0 => format!("{threads} threads that compute"),
                            _ => format!("{threads} threads that compute, {idle} % idle"),
                        };
                        add(what, vec![threads.to_string(), idle.to_string()]);
                    }
                }
            }
            Workload::Pool => {
                for threads in &options.threads {
                    let what = format!("{threads} threads with a lock");
                    add(what, vec![threads.to_string()]);
                }
            }
            Workload::Churn => {
                for Brief {
                    work_us,
                    pairs_a_second,
                } in &options.brief
                {
                    let rate = match pairs_a_second {
                        0 => "as fast as can be".to_owned(),
                        rate => format!("{rate} pairs a second"),
                    };
                    let what = format!("brief threads of {work_us} us, {rate}");
                    add(what, vec![work_us.to_string(), pairs_a_second.to_string()]);
                }
            }
        }
    }
    Ok(cases)
}

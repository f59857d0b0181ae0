//! `cargo xtask bench switches`: what it costs a program that is watched to be given a processor. A server answers a
//! client, which is not watched, on the same processor: each answer takes two switches.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::{
    figure::figure, machine, pair::in_turns, statistics::median, table::Table, throughput::lost,
};
use crate::{build, fixture};

/// How to measure.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs, plain and watched, for each number of threads.
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Seconds that each half of a pair runs, after some that are not counted.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Threads of the server; one of them answers.
    #[arg(long, value_delimiter = ',', default_value = "2,16")]
    threads: Vec<usize>,
    /// What gwp-race may cost.
    #[arg(long, default_value = "1%")]
    budget: String,
}

/// Measures.
pub fn run(options: &Options) -> Result<()> {
    let gwp_race = build::run(true)?;
    let program = fixture::compile("bench", "switches")?;
    let mut table = Table::new(&[
        "threads",
        "us an answer, plain",
        "watched",
        "median loss %",
        "plain runs differ by %",
    ]);
    for &threads in &options.threads {
        let (mut pairs, mut plain_pairs) = (Vec::new(), Vec::new());
        for pair in 1..=options.pairs {
            let plain = || answer_ns(&program, Command::new(&program), threads, options);
            let watched = || {
                let mut command = Command::new(&gwp_race);
                command
                    .args(["run", "--quiet", "--max-overhead", &options.budget])
                    .args(["--output", "/dev/null", "--"])
                    .arg(&program);
                answer_ns(&program, command, threads, options)
            };
            let (plain_ns, watched_ns) = in_turns(pair, plain, watched)?;
            let again_ns = answer_ns(&program, Command::new(&program), threads, options)?;
            println!(
                "{threads} threads, pair {pair} of {}: {plain_ns} / {watched_ns} ns, plain again {again_ns}",
                options.pairs
            );
            pairs.push((plain_ns, watched_ns));
            plain_pairs.push((plain_ns, again_ns));
        }
        // Answers a second are the inverse of that.
        let losses = |pairs: &[(f64, f64)]| -> Vec<f64> {
            let loss = |&(first, second): &(f64, f64)| lost(1.0 / first, 1.0 / second);
            pairs.iter().map(loss).collect()
        };
        let differences: Vec<f64> = losses(&plain_pairs).iter().map(|loss| loss.abs()).collect();
        let (plain, watched): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        table.row(vec![
            threads.to_string(),
            format!("{:.2}", median(&plain) / 1e3),
            format!("{:.2}", median(&watched) / 1e3),
            format!("{:+.2}", median(&losses(&pairs))),
            format!("{:.2}", median(&differences)),
        ]);
    }
    let mut description = machine::description();
    description.push(format!(
        "Server and client on one processor; --max-overhead {}; medians of {} pairs of {} s.",
        options.budget, options.pairs, options.seconds
    ));
    table.publish("switches", &description)
}

/// Time between two answers of the server, ns.
fn answer_ns(
    program: &Path,
    mut server: Command,
    threads: usize,
    options: &Options,
) -> Result<f64> {
    let mut client = Command::new(program)
        .args(["ask", &options.seconds.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting the client")?;
    let (questions, answers) = (client.stdout.take(), client.stdin.take());
    let server = server
        .args(["serve", &threads.to_string()])
        .stdin(questions.context("a pipe")?)
        .stdout(answers.context("a pipe")?)
        .spawn();
    let mut server = server.context("starting the server")?;
    let output = client.wait_with_output()?;
    let status = server.wait()?;
    ensure!(
        output.status.success() && status.success(),
        "the server or its client failed: {status}, {}",
        output.status
    );
    figure(&String::from_utf8_lossy(&output.stderr), "ns")
}

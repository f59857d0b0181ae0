//! What watching takes, by the number of functions.

use std::{
    fmt::{self, Write as _},
    fs,
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use anyhow::Result;

use super::middle;
use crate::{
    bench::{detection::detect, started::Started, table::Table},
    fixture,
};

/// How long the program runs, s.
const SECONDS: &str = "60";
/// After this time gwp-race is at its usual work.
const SETTLED: Duration = Duration::from_secs(2);
/// Private work between two accesses that race.
const HASHES: &str = "3";
/// A first report that takes longer counts as none.
const LIMIT_S: f64 = 30.0;

/// What was measured with so many functions.
pub struct Functions {
    count: usize,
    file_mib: f64,
    runs: Vec<Run>,
}

struct Run {
    /// From the start of `gwp-race run` until it watches.
    start_ms: f64,
    /// Memory of all its processes then, and of the largest one at most.
    mib: f64,
    peak_mib: f64,
    /// To the first report, with the most aggressive sampling.
    report_s: f64,
}

/// Measures.
pub fn measure(gwp_race: &Path, counts: &[usize], runs: usize) -> Result<Vec<Functions>> {
    let measure = |&count: &usize| {
        let program = fixture::compile_with_functions("bench", "increments", count)?;
        let once = |number| {
            let run = Run::new(gwp_race, &program)?;
            println!("{count} functions, run {number} of {runs}: {run}");
            Ok(run)
        };
        Ok(Functions {
            count,
            file_mib: fs::metadata(&program)?.len() as f64 / f64::from(1 << 20),
            runs: (1..=runs).map(once).collect::<Result<_>>()?,
        })
    };
    counts.iter().map(measure).collect()
}

impl Run {
    fn new(gwp_race: &Path, program: &Path) -> Result<Self> {
        let mut command = Command::new(gwp_race);
        command.args(["run", "--verbose", "--output", "/dev/null", "--"]);
        command.arg(program).args([SECONDS, HASHES]);
        let started = Started::new(&mut command)?;
        thread::sleep(SETTLED);
        let (mib, peak_mib) = (started.mib(), started.peak_mib());
        let start_ms = started.seconds * 1e3;
        drop(started);
        let options = ["--max-overhead", "100%", "--sample-period", "1ms"];
        let arguments = [SECONDS, HASHES].map(str::to_owned);
        Ok(Self {
            start_ms,
            mib,
            peak_mib,
            report_s: detect(gwp_race, &options, program, &arguments, LIMIT_S)?.seconds,
        })
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "watched after {:.0} ms, {:.1} MiB ({:.1} at most), first report after {:.2} s",
            self.start_ms, self.mib, self.peak_mib, self.report_s
        )
    }
}

/// The medians.
pub fn table(all: &[Functions]) -> Table {
    let mut table = Table::new(&[
        "functions",
        "file MiB",
        "ms from run to watching",
        "MiB of memory",
        "MiB of the largest process at most",
        "s to the first report",
    ]);
    for functions in all {
        let runs = &functions.runs;
        table.row(vec![
            functions.count.to_string(),
            format!("{:.1}", functions.file_mib),
            format!("{:.0}", middle(runs, |run| run.start_ms)),
            format!("{:.1}", middle(runs, |run| run.mib)),
            format!("{:.1}", middle(runs, |run| run.peak_mib)),
            format!("{:.2}", middle(runs, |run| run.report_s)),
        ]);
    }
    table
}

/// The right half of the picture.
pub fn script(all: &[Functions]) -> String {
    let mut rows = String::new();
    for functions in all {
        let runs = &functions.runs;
        // Writing to a String cannot fail.
        let _ = writeln!(
            rows,
            "{} {} {}",
            functions.count,
            middle(runs, |run| run.start_ms),
            middle(runs, |run| run.mib)
        );
    }
    format!(
        "$functions << END\n{rows}END
set logscale xy
set grid
set key below vertical maxrows 2
set xlabel 'functions'
set ylabel 'ms, MiB'
plot $functions using 1:2 with linespoints pt 7 title 'ms from run until watching', \\
  $functions using 1:3 with linespoints pt 7 title 'MiB of memory'
"
    )
}

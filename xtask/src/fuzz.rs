//! `cargo xtask fuzz`: the parsers of files get bytes that no compiler would write.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::available_parallelism,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build, ebpf, paths,
    steps::{cargo, shown, step},
};

/// All targets of `sanitizer/fuzz`.
const TARGETS: [&str; 14] = [
    "block_map",
    "coverage",
    "debug_info",
    "fault_map",
    "headers",
    "hints",
    "image",
    "message",
    "outline",
    "pc_section",
    "pcmeta",
    "pseudo_probe",
    "stack_map",
    "stack_sizes",
];

/// The package of the targets.
const PACKAGE: &str = "gwp-race-fuzz";
/// What is instrumented, if not all is.
const OURS: [&str; 2] = ["gwp-race", PACKAGE];

/// The instrumentation that libFuzzer needs; there is no unsafe code to watch for more.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// With a target of its own, nothing is instrumented that the build itself runs.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// An input that takes longer than this is a finding: the largest are 64 KiB.
const LIMITS: [&str; 3] = ["-max_len=65536", "-timeout=10", "-rss_limit_mb=2048"];

#[derive(clap::Args)]
pub struct Options {
    /// How long to run each target.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Instrument and check what the targets depend on as well, which is built anew for it: for long runs.
    #[arg(long)]
    deep: bool,
    /// The targets, or all of them.
    #[arg(value_parser = TARGETS)]
    targets: Vec<String>,
}

/// Builds the targets, writes their seeds, and runs them, as many at once as there are processors.
pub fn run(options: &Options) -> Result<()> {
    // What they are about embeds the gates.
    ebpf::build()?;
    let fuzz = paths::root().join("sanitizer/fuzz");
    let (mut build, built) = building(&fuzz, options.deep);
    step("building the fuzz targets", &mut build)?;
    step("seeds", &mut Command::new(fuzz.join("seed.sh")))?;

    let all = TARGETS.map(str::to_owned);
    let chosen = match &options.targets[..] {
        [] => &all[..],
        chosen => chosen,
    };
    let at_once = available_parallelism().map_or(1, NonZero::get);
    let mut failed = Vec::new();
    for some in chosen.chunks(at_once) {
        println!("==> fuzzing {}", some.join(", "));
        let mut running = Vec::new();
        for target in some {
            let mut command = command(&fuzz, &built, target, options.seconds)?;
            command.stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command
                .spawn()
                .with_context(|| format!("cannot start {}", shown(&command)))?;
            // Each is read by itself, or one that nobody reads would stand still.
            let reading = std::thread::spawn(move || child.wait_with_output());
            running.push((target, command, reading));
        }
        for (target, command, reading) in running {
            let Ok(output) = reading.join() else {
                bail!("reading what {} says has failed", shown(&command));
            };
            let output = output.with_context(|| format!("waiting for {}", shown(&command)))?;
            print!("{}", String::from_utf8_lossy(&output.stdout));
            print!("{}", String::from_utf8_lossy(&output.stderr));
            if !output.status.success() {
                println!(
                    "fuzzing {target} failed ({}): {}",
                    output.status,
                    shown(&command)
                );
                failed.push(format!("{target} ({})", artifacts(&fuzz, target).display()));
            }
        }
    }
    if !failed.is_empty() {
        bail!("found something: {}", failed.join(", "));
    }
    Ok(())
}

/// The command that builds all targets, and where it leaves them. What they depend on is that of a release, if it is not to be instrumented.
fn building(fuzz: &Path, is_deep: bool) -> (Command, PathBuf) {
    let mut command = cargo();
    command.args(["build", "--release", "--package", PACKAGE]);
    let whose = match is_deep {
        true => vec![String::new()],
        false => OURS.map(|name| format!(".package.{name}")).to_vec(),
    };
    // Built as what is tested: to optimize it more takes longer than what is gained by it in a short while.
    for whose in whose {
        command.args(build::checks(&whose));
    }
    if is_deep {
        let folder = paths::target().join("fuzz");
        command
            .args(["--target", PLATFORM])
            .env("RUSTFLAGS", INSTRUMENTATION)
            .env("CARGO_TARGET_DIR", &folder);
        return (command, folder.join(PLATFORM).join("release"));
    }
    command
        .env("RUSTC_WORKSPACE_WRAPPER", fuzz.join("instrumented.sh"))
        .env("INSTRUMENTATION", INSTRUMENTATION);
    (command, paths::target().join("release"))
}

/// Where the inputs are kept that a target does not bear.
fn artifacts(fuzz: &Path, target: &str) -> PathBuf {
    fuzz.join("artifacts").join(target)
}

/// The command that runs a target for so long.
fn command(fuzz: &Path, built: &Path, target: &str, seconds: u64) -> Result<Command> {
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), artifacts(fuzz, target));
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut command = Command::new(built.join(target));
    command
        .args(LIMITS)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-verbosity=0"])
        .arg(corpus);
    Ok(command)
}

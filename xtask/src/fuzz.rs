//! `cargo xtask fuzz`: the parsers of files get bytes that no compiler would write.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::{
    paths,
    steps::{cargo, step},
};

/// All targets of `sanitizer/fuzz`.
const TARGETS: [&str; 9] = [
    "block_map",
    "coverage",
    "fault_map",
    "image",
    "pc_section",
    "pcmeta",
    "pseudo_probe",
    "stack_map",
    "stack_sizes",
];

/// The instrumentation that libFuzzer needs; there is no unsafe code to watch for more.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// With a target of its own, the flags do not reach what the build itself runs.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// An input that takes longer than this is a finding: the largest are 64 KiB.
const LIMITS: [&str; 3] = ["-max_len=65536", "-timeout=10", "-rss_limit_mb=2048"];

#[derive(clap::Args)]
pub struct Options {
    /// How long to run each target.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The targets, or all of them.
    #[arg(value_parser = TARGETS)]
    targets: Vec<String>,
}

/// Builds the targets, writes their seeds, and runs one after the other.
pub fn run(options: &Options) -> Result<()> {
    let fuzz = paths::root().join("sanitizer/fuzz");
    let mut build = cargo();
    build
        .current_dir(&fuzz)
        .args(["build", "--release", "--target", PLATFORM])
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .env("CARGO_TARGET_DIR", fuzz.join("target"));
    step("building the fuzz targets", &mut build)?;
    step("seeds", &mut Command::new(fuzz.join("seed.sh")))?;

    let all = TARGETS.map(str::to_owned);
    let chosen = match &options.targets[..] {
        [] => &all[..],
        chosen => chosen,
    };
    let mut failed = Vec::new();
    for target in chosen {
        let corpus = fuzz.join("corpus").join(target);
        let artifacts = fuzz.join("artifacts").join(target);
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut command = Command::new(
            fuzz.join("target")
                .join(PLATFORM)
                .join("release")
                .join(target),
        );
        command
            .args(LIMITS)
            .arg(format!("-max_total_time={}", options.seconds))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-print_final_stats=1", "-verbosity=0"])
            .arg(corpus);
        if step(&format!("fuzzing {target}"), &mut command).is_err() {
            failed.push(format!("{target} ({})", artifacts.display()));
        }
    }
    if !failed.is_empty() {
        bail!("found something: {}", failed.join(", "));
    }
    Ok(())
}

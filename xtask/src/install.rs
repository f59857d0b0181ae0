//! `cargo xtask install`: what `cargo install --path sanitizer` does, with the eBPF object built before.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    ebpf, setup,
    steps::{cargo, step},
};

#[derive(clap::Args)]
pub struct Options {
    /// Install into DIR/bin instead of cargo's own folder (~/.cargo/bin).
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Builds both, and puts gwp-race where cargo puts programs.
pub fn run(options: &Options) -> Result<()> {
    setup::run()?;
    ebpf::build()?;
    let mut command = cargo();
    command
        .args([
            "install",
            "--locked",
            "--force",
            "--bin",
            "gwp-race",
            "--path",
            "sanitizer",
        ])
        .env_remove("GWP_RACE_EBPF_OBJECT");
    if let Some(root) = &options.root {
        command.arg("--root").arg(std::path::absolute(root)?);
    }
    step("installing gwp-race", &mut command)
}

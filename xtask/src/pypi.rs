//! What tests need of PyPI: wheels of one version each, known by what is in them. pip fetches them, what is needed of them is unpacked into a folder of the tree's own, and nothing is installed; nothing of
//! Python runs of them but what a test runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    paths,
    steps::{answer, step},
};

/// Helm's own library, and the schemas of Kubernetes' objects, for the test of the chart.
const CHARTS: Fetched = Fetched {
    folder: "charts",
    what: "Helm's library (100 MB)",
    wheels: &[
        Wheel {
            name: "helm-python-sdk",
            version: "0.2.2",
            sha256: "28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578",
        },
        Wheel {
            name: "kubernetes-validate",
            version: "1.37.0",
            sha256: "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9",
        },
    ],
    platform: None,
    // Of the library there are three copies, of the schemas one for each version.
    needed: &[
        "helm_python/*.py",
        "helm_python/lib/*.so.?.?.?",
        "kubernetes_validate/*/v1.37.0-local-strict/_definitions.json",
    ],
};

/// A collector of OpenTelemetry (<https://rotel.dev>), for the test of what is sent to one.
const ROTEL: Fetched = Fetched {
    folder: "rotel",
    what: "rotel",
    wheels: &[Wheel {
        name: "rotel",
        version: "0.0.1a15",
        sha256: "2f4117e58410c933e0dc042a268ef738dab2e3a5d63b5831209acdac2a6ddcb7",
    }],
    // One of several that are alike but for their names.
    platform: Some(("3.11", "manylinux_2_34_x86_64")),
    needed: &["rotel/rotel-agent"],
};

/// The file that says which wheels a folder is of.
const PRESENT: &str = "wheels.txt";

/// Unpacks what is needed of all wheels in a folder into another one. What is executable stays so.
const UNPACK: &str = "
import fnmatch, glob, os, sys, zipfile
wheels, into, *needed = sys.argv[1:]
for wheel in glob.glob(wheels + '/*.whl'):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if any(fnmatch.fnmatchcase(entry.filename, pattern) for pattern in needed):
                file = archive.extract(entry, into)
                if entry.external_attr >> 16 & 0o111:
                    os.chmod(file, 0o755)
";

/// A wheel.
struct Wheel {
    name: &'static str,
    version: &'static str,
    sha256: &'static str,
}

/// Wheels, and what is needed of them.
struct Fetched {
    /// Where that is unpacked, below the tree's tools.
    folder: &'static str,
    /// What it is called in messages.
    what: &'static str,
    wheels: &'static [Wheel],
    /// The version of Python and the platform that their names have, where not those of this machine.
    platform: Option<(&'static str, &'static str)>,
    /// Patterns of files.
    needed: &'static [&'static str],
}

impl Fetched {
    /// The wheels as pip takes them, in a file of requirements.
    fn requirements(&self) -> String {
        let line = |wheel: &Wheel| {
            let Wheel {
                name,
                version,
                sha256,
            } = wheel;
            format!("{name}=={version} --hash=sha256:{sha256}\n")
        };
        self.wheels.iter().map(line).collect()
    }

    /// Gets what is not there, by pip, which `have_pip` gets where it is missing. What is there stays until there is something else.
    fn have(&self, have_pip: impl FnOnce() -> Result<()>) -> Result<()> {
        let folder = paths::tools().join(self.folder);
        let wanted = self.requirements();
        if fs::read_to_string(folder.join(PRESENT)).is_ok_and(|present| present == wanted) {
            return Ok(());
        }
        if answer(Command::new("python3").args(["-m", "pip", "--version"])).is_none() {
            have_pip()?;
        }
        let [new, wheels] = ["new", "wheels"].map(|end| beside(&folder, end));
        for stale in [&new, &wheels] {
            let _ = fs::remove_dir_all(stale);
            fs::create_dir_all(stale).with_context(|| format!("making {}", stale.display()))?;
        }
        let present = new.join(PRESENT);
        fs::write(&present, wanted).with_context(|| format!("writing {}", present.display()))?;
        self.download(&present, &wheels)?;
        unpack(&wheels, &new, self.needed)?;
        fs::remove_dir_all(&wheels).with_context(|| format!("removing {}", wheels.display()))?;
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&new, &folder).with_context(|| format!("making {}", folder.display()))
    }

    fn download(&self, requirements: &Path, into: &Path) -> Result<()> {
        let mut download = Command::new("python3");
        download
            .args(["-m", "pip", "--disable-pip-version-check", "download"])
            .args(["--quiet", "--no-deps", "--only-binary=:all:"])
            .args(["--require-hashes", "--retries", "2", "--timeout", "20"]);
        if let Some((python, platform)) = self.platform {
            download.args(["--python-version", python, "--platform", platform]);
        }
        download.arg("--dest").arg(into);
        download.arg("--requirement").arg(requirements);
        step(&format!("getting {} of PyPI", self.what), &mut download)
    }
}

/// A folder beside another one.
fn beside(folder: &Path, end: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(format!(".{end}"));
    name.into()
}

fn unpack(wheels: &Path, into: &Path, needed: &[&str]) -> Result<()> {
    let mut unpack = Command::new("python3");
    unpack
        .args(["-c", UNPACK])
        .args([wheels, into])
        .args(needed);
    step("unpacking it", &mut unpack)
}

/// Gets what the test of the chart needs; `have_pip` gets pip where that is missing.
pub fn have_charts(have_pip: impl FnOnce() -> Result<()>) -> Result<()> {
    CHARTS.have(have_pip)
}

/// Gets what the test of the fleet sends events and figures to; pip is there.
pub fn have_rotel() -> Result<()> {
    ROTEL.have(|| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Check that of wheels what is needed is unpacked, with its right to be executed, and nothing else.
    #[test]
    fn what_is_needed_is_unpacked() {
        const MAKE: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/a-1-py3-none-any.whl', 'w') as archive:
    for name, mode in [('a/program', 0o755), ('a/data.json', 0o644), ('a/more/data.json', 0o644), ('b/program', 0o755)]:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o100000 | mode) << 16
        archive.writestr(entry, name)
";
        let scratch = std::env::temp_dir().join(format!("gwp-race-wheels-{}", std::process::id()));
        let [wheels, into] = ["wheels", "into"].map(|name| scratch.join(name));
        for folder in [&wheels, &into] {
            fs::create_dir_all(folder).unwrap();
        }
        let made = Command::new("python3")
            .args(["-c", MAKE])
            .arg(&wheels)
            .status();
        assert!(made.unwrap().success());
        unpack(&wheels, &into, &["a/program", "a/*.json"]).unwrap();
        let mode = |name: &str| {
            let about = fs::metadata(into.join(name)).ok()?;
            Some(about.permissions().mode() & 0o111 != 0)
        };
        let modes = ["a/program", "a/data.json", "b/program"].map(mode);
        fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(modes, [Some(true), Some(false), None]);
    }

    /// Check that each wheel is named by its contents, and that what is there is only taken for what is wanted where these are the same.
    #[test]
    fn wheels_are_known_by_their_contents() {
        for fetched in [CHARTS, ROTEL] {
            let requirements = fetched.requirements();
            assert_eq!(requirements.lines().count(), fetched.wheels.len());
            for line in requirements.lines() {
                let (name, hash) = line.split_once(" --hash=sha256:").unwrap();
                assert!(name.contains("=="), "{line}");
                assert_eq!(hash.len(), 64, "{line}");
            }
        }
    }
}

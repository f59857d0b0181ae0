//! What the test of the Helm chart needs of PyPI: Helm's own library, and the schemas of Kubernetes' objects. Files of known contents are unpacked into `target/tools/charts`; nothing is installed, and
//! nothing else is fetched.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    paths, setup,
    steps::{answer, step},
};

/// By name, version and contents, as pip takes them.
const WHEELS: &str = "\
helm-python-sdk==0.2.2 --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578
kubernetes-validate==1.37.0 --hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9
";
/// What of them is needed: of the library there are three copies, of the schemas one for each version.
const NEEDED: [&str; 3] = [
    "helm_python/*.py",
    "helm_python/lib/*.so.?.?.?",
    "kubernetes_validate/*/v1.37.0-local-strict/_definitions.json",
];
/// Unpacks what is needed of all wheels in a folder into another one.
const UNPACK: &str = "
import fnmatch, glob, sys, zipfile
wheels, into, *needed = sys.argv[1:]
for wheel in glob.glob(wheels + '/*.whl'):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in needed):
                archive.extract(name, into)
";
/// The file that says which ones are there.
const PRESENT: &str = "wheels.txt";

/// Gets what is not there.
pub fn have() -> Result<()> {
    let folder = paths::tools().join("charts");
    let present = folder.join(PRESENT);
    if fs::read_to_string(&present).is_ok_and(|present| present == WHEELS) {
        return Ok(());
    }
    if answer(Command::new("python3").args(["-m", "pip", "--version"])).is_none() {
        setup::have(&["python3-pip"])?;
    }
    let wheels = folder.join("wheels");
    for stale in [&folder, &wheels] {
        let _ = fs::remove_dir_all(stale);
        fs::create_dir_all(stale).with_context(|| format!("making {}", stale.display()))?;
    }
    let wanted = folder.join("wanted.txt");
    fs::write(&wanted, WHEELS).with_context(|| format!("writing {}", wanted.display()))?;
    let mut download = Command::new("python3");
    download
        .args(["-m", "pip", "--disable-pip-version-check", "download"])
        .args(["--quiet", "--no-deps", "--only-binary=:all:"])
        .arg("--require-hashes")
        .arg("--dest")
        .arg(&wheels)
        .arg("--requirement")
        .arg(&wanted);
    step("getting Helm's library (100 MB)", &mut download)?;
    let mut unpack = Command::new("python3");
    unpack
        .args(["-c", UNPACK])
        .args([&wheels, &folder])
        .args(NEEDED);
    step("unpacking it", &mut unpack)?;
    fs::remove_dir_all(&wheels).with_context(|| format!("removing {}", wheels.display()))?;
    fs::rename(&wanted, &present).with_context(|| format!("writing {}", present.display()))
}

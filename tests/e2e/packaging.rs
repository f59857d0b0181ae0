//! Building gwp-race otherwise than the README says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The package's build script, built by itself.
fn build_script(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sanitizer/build.rs");
    let script = folder.join("script");
    let built = Command::new("rustc")
        .args(["--edition", "2024", "-o"])
        .arg(&script)
        .arg(source)
        .status();
    assert!(built.expect("rustc runs").success());
    script
}

/// Runs it as cargo does in a tree whose gates were not built.
fn run(script: &Path, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let package = folder.join("sanitizer");
    std::fs::create_dir_all(&package).expect("a folder");
    let mut command = Command::new(script);
    command
        .current_dir(&package)
        .env_clear()
        .env("OUT_DIR", folder)
        .envs(variables.iter().copied());
    command.output().expect("it runs")
}

/// Check that no gwp-race which is to be used is built without gates, and that the error has the commands that work; and that
/// checks and fuzzing need none.
#[test]
fn no_gwp_race_without_gates() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = build_script(folder.path());
    let refused = run(&script, folder.path(), &[("PROFILE", "release")]);
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("`cargo xtask install`"), "{message}");
    assert!(!folder.path().join("gates.o").exists());
    for variables in [
        &[("PROFILE", "debug")][..],
        &[("PROFILE", "release"), ("CARGO_CFG_FUZZING", "")],
    ] {
        let checked = run(&script, folder.path(), variables);
        assert!(checked.status.success(), "{checked:?}");
        for object in ["gates.o", "descent.o"] {
            let object = folder.path().join(object);
            assert_eq!(std::fs::read(&object).expect("it is written"), b"");
            std::fs::remove_file(object).expect("it is there");
        }
    }
}

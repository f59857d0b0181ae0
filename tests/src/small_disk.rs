//! A disk that soon is full.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs a command in a mount namespace of its own, with a file system in memory at a folder, mounted with these options (`size=4k`).
/// Afterwards the shell there does what `keep` says, which knows that folder as `$folder`, the command's words as `$@`, and a file as `$kept`: what
/// that has is returned as well. Where mounting fails, the exit code is 99.
pub fn on_a_small_disk(
    command: &Command,
    folder: &Path,
    options: &str,
    keep: &str,
) -> (Output, String) {
    let script = format!(
        "mount -t tmpfs -o {options} none \"$1\" || exit 99
        folder=$1 kept=$2; shift 2
        \"$@\"; code=$?
        {keep}
        exit $code"
    );
    let kept = folder.with_extension("kept");
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private"])
        .args(["sh", "-c", &script, "sh"])
        .args([folder, &kept])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    let output = unshare.output().expect("unshare runs");
    (output, fs::read_to_string(kept).unwrap_or_default())
}

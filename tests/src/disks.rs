//! Disks of which it is known how much room they have: file systems in memory, which nobody else sees.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};

/// A folder that has room for whatever a test writes there, however full the disks of this machine are: for the thread that has made it and for what that starts. The folder is empty once more
/// when this is dropped.
pub struct Roomy(PathBuf);

impl Roomy {
    /// Lays a file system over a folder, which is made if it is missing. This takes root.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        // Taken up only where something is written.
        const SIZE: &str = "size=64g,mode=0755";
        fs::create_dir_all(&folder).expect("a folder");
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        let none: Option<&str> = None;
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, flags, none).expect("mounts of its own");
        let mounted = mount(
            Some("none"),
            &folder,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(SIZE),
        );
        mounted.expect("a file system in memory");
        Self(folder)
    }
}

impl Drop for Roomy {
    fn drop(&mut self) {
        // Where it fails, it goes with the thread.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

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

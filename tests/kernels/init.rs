//! The first process of a virtual machine: mounts what gwp-race needs, starts the trials, reaps orphans, and switches the machine off. Or it
//! becomes systemd, which does the same.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use nix::{
    mount::{MsFlags, mount},
    sys::{
        reboot::{RebootMode, reboot},
        wait::wait,
    },
    unistd::Pid,
};

use crate::systemd;

/// The command that runs the trials.
pub const TRIALS: &str = "trials";
/// Where this program is.
const THIS: &str = "/init";
/// What the first process is to be: `systemd`, or else this one.
const FIRST: &str = "GWP_RACE_FIRST";
/// File systems, and where they belong. What a kernel lacks of them, the trials find out.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("securityfs", "/sys/kernel/security"),
    ("tracefs", "/sys/kernel/tracing"),
];
/// For whoever wants it. It is no file system of its own, which might hide files of the source tree.
const SCRATCH: &str = "/tmp";
/// The second serial port: the kernel does not write to it.
const RESULTS: &str = "/dev/ttyS1";

/// Does it all; `filters` choose the trials. What fails here is seen on the first serial port, and the machine goes off.
pub fn run(filters: &[String]) -> Result<()> {
    let done = if env::var_os(FIRST).is_some_and(|first| first == "systemd") {
        systemd::boot::move_root()
            .and_then(|()| prepare())
            .and_then(|()| systemd::boot::become_it(&[THIS, TRIALS], filters, RESULTS))
    } else {
        prepare().and_then(|()| trials(filters))
    };
    if let Err(error) = &done {
        eprintln!("{error:#}");
    }
    // The end of the first process would be a panic.
    reboot(RebootMode::RB_POWER_OFF).context("switching the machine off")?;
    done
}

fn prepare() -> Result<()> {
    for (kind, place) in MOUNTS {
        fs::create_dir_all(place)
            .and_then(|()| {
                mount(
                    Some(kind),
                    place,
                    Some(kind),
                    MsFlags::empty(),
                    None::<&str>,
                )?;
                Ok(())
            })
            .unwrap_or_else(|error| eprintln!("{place}: {error}"));
    }
    fs::create_dir_all(SCRATCH)?;
    fs::set_permissions(SCRATCH, fs::Permissions::from_mode(0o1777))?;
    Ok(())
}

fn trials(filters: &[String]) -> Result<()> {
    let results = File::options()
        .write(true)
        .open(RESULTS)
        .with_context(|| RESULTS.to_owned())?;
    let child = Command::new(THIS)
        .arg(TRIALS)
        .args(filters)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(results)
        .spawn()
        .context("starting the trials")?;
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        let ended = wait().context("waiting for the trials")?;
        if ended.pid() == Some(child) {
            return Ok(());
        }
    }
}

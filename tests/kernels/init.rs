//! The first process of a virtual machine: mounts what gwp-race needs, starts the trials, reaps orphans, and switches the machine off.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::Path,
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
use perf_event_open_sys::bindings as raw;

use crate::event;

/// The command that runs the trials.
pub const TRIALS: &str = "trials";
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
    let _event = hold_event().inspect_err(|error| eprintln!("{error:#}"));
    let done = prepare().and_then(|()| trials(filters));
    if let Err(error) = &done {
        eprintln!("{error:#}");
    }
    // The end of the first process would be a panic.
    reboot(RebootMode::RB_POWER_OFF).context("switching the machine off")?;
    done
}

/// An event that counts nothing. As long as there is one of a thread, the kernel does not patch its code when others come and go: it puts a breakpoint
/// there for a moment, which an emulator's processor now and then still executes when it has been taken away ("Oops: int3" in `__schedule`).
fn hold_event() -> Result<File> {
    let mut attributes = raw::perf_event_attr {
        type_: raw::PERF_TYPE_SOFTWARE,
        size: size_of::<raw::perf_event_attr>() as u32,
        config: u64::from(raw::PERF_COUNT_SW_DUMMY),
        ..raw::perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    event::open(attributes).context("holding an event")
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
    let child = Command::new(env::current_exe().unwrap_or_else(|_| Path::new("/init").to_owned()))
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

//! The machine's first process becomes systemd, with a service that runs the trials and then switches the machine off.

use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chroot},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};

use super::SYSTEMD;

/// Where `/` is for a moment.
const ROOT: &str = "/root-to-be";
/// Files of systemd's, besides the service. Targets are what each service waits for.
const FILES: [(&str, &str); 6] = [
    ("/etc/machine-id", "5f1d0000000000000000000000000001\n"),
    (
        "/etc/systemd/system.conf",
        "[Manager]\nLogTarget=console\nLogColor=no\nShowStatus=no\nCrashReboot=yes\nDefaultStandardOutput=null\n",
    ),
    ("/etc/systemd/system/sysinit.target", TARGET),
    ("/etc/systemd/system/basic.target", TARGET),
    ("/etc/systemd/system/shutdown.target", TARGET),
    (
        "/etc/systemd/system/default.target",
        "[Unit]\nRequires=trials.service\n",
    ),
];
const TARGET: &str = "[Unit]\nDefaultDependencies=no\n";
const SERVICE: &str = "/etc/systemd/system/trials.service";
/// What the trials know of their machine.
const PASSED_ON: [&str; 2] = ["GWP_RACE_BIN", "GWP_RACE_KILLS"];

/// Makes `/` a file system that a service can have another one in the place of: the first one of a kernel cannot be left by
/// pivot_root(2). Nothing may be mounted yet.
pub fn move_root() -> Result<()> {
    let none = None::<&str>;
    fs::create_dir_all(ROOT)?;
    mount(Some("/"), ROOT, none, MsFlags::MS_BIND, none).context("mounting / once more")?;
    env::set_current_dir(ROOT)?;
    mount(Some("."), "/", none, MsFlags::MS_MOVE, none).context("moving / to /")?;
    chroot(".")?;
    Ok(env::set_current_dir("/")?)
}

/// Does not return but with an error.
pub fn become_it(command: &[&str], filters: &[String], results: &str) -> Result<()> {
    for (path, text) in FILES {
        write(path, text)?;
    }
    write(SERVICE, &service(command, filters, results))?;
    for directory in ["/var/tmp", "/var/lib"] {
        fs::create_dir_all(directory)?;
    }
    fs::set_permissions("/var/tmp", fs::Permissions::from_mode(0o1777))?;
    let error = Command::new(SYSTEMD).env_clear().exec();
    Err(error).context(SYSTEMD)
}

fn write(path: &str, text: &str) -> Result<()> {
    if let Some(directory) = Path::new(path).parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text).with_context(|| path.to_owned())
}

fn service(command: &[&str], filters: &[String], results: &str) -> String {
    let mut words = command.to_vec();
    words.extend(filters.iter().map(String::as_str));
    let mut text = format!(
        "[Unit]\nSuccessAction=poweroff-immediate\nFailureAction=poweroff-immediate\n\
         [Service]\nExecStart={}\nStandardOutput=file:{results}\nStandardError=file:/dev/console\n\
         Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin\n",
        words.join(" ")
    );
    for name in PASSED_ON {
        if let Ok(value) = env::var(name) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "Environment={name}={value}");
        }
    }
    text
}

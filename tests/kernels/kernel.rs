//! The kernel that runs, and its settings.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use nix::sys::utsname::uname;

/// The oldest one that is claimed to work (docs/compatibility.md).
const CLAIMED: (u32, u32) = (5, 15);
/// From this one on a gate can hold back an event's own SIGTRAP.
const SUPPRESSES_SIGTRAP: (u32, u32) = (6, 10);

/// See the module.
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    version: (u32, u32),
    /// `none`, `integrity` or `confidentiality`.
    pub lockdown: String,
    /// Whether systemd is its first process (sd_booted(3)).
    pub has_systemd: bool,
}

impl Kernel {
    /// The one that runs.
    pub fn running() -> Self {
        let release = uname().map_or_else(
            |_| String::new(),
            |name| name.release().to_string_lossy().into_owned(),
        );
        // The present one is in brackets.
        let file = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        let present = file.split(['[', ']']).nth(1).unwrap_or("none");
        let has_systemd = Path::new("/run/systemd/system").is_dir();
        Self::new(&release, present, has_systemd)
    }

    /// One of this release, as `uname -r` prints it, in this state.
    pub fn new(release: &str, lockdown: &str, has_systemd: bool) -> Self {
        let mut numbers = release
            .split(|letter: char| !letter.is_ascii_digit())
            .map_while(|number| number.parse().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Self {
            release: release.to_owned(),
            version,
            lockdown: lockdown.to_owned(),
            has_systemd,
        }
    }

    /// Whether gwp-race is said to work on it.
    pub fn is_claimed(&self) -> bool {
        self.version >= CLAIMED
    }

    /// Whether threads that ignore SIGTRAP can be stopped by that.
    pub fn suppresses_sigtrap(&self) -> bool {
        self.version >= SUPPRESSES_SIGTRAP
    }
}

/// Changes a setting below `/proc/sys`.
pub fn set(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).with_context(|| format!("{path} := {value}"))
}

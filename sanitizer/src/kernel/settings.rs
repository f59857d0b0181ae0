//! Settings of the kernel that forbid what gwp-race does, and what to do about each.

use std::fs;

use nix::unistd::geteuid;

use super::setcap::for_own;

/// The most restrictive setting of `kernel.perf_event_paranoid` under which an ordinary user has events of user mode. Some distributions
/// have further ones.
pub const USER_EVENTS: i32 = 2;
/// Yama's `ptrace_scope` that nobody takes back (Documentation/admin-guide/LSM/Yama.rst).
pub const NO_ATTACH: u32 = 3;

/// `kernel.perf_event_paranoid`, where the kernel has perf events.
#[must_use]
pub fn perf_event_paranoid() -> Option<i32> {
    number("/proc/sys/kernel/perf_event_paranoid")
}

/// Yama's `ptrace_scope`, where the kernel has that.
#[must_use]
pub fn ptrace_scope() -> Option<u32> {
    number("/proc/sys/kernel/yama/ptrace_scope")
}

/// The version in a kernel's release: `6.18.44-something` as (6, 18).
#[must_use]
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn number<T: std::str::FromStr>(path: &str) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether `lockdown=confidentiality` keeps eBPF from reading memory. Where securityfs is not mounted nobody can tell.
#[must_use]
pub fn forbid_ebpf() -> bool {
    let file = fs::read_to_string("/sys/kernel/security/lockdown");
    file.is_ok_and(|text| is_confidential(&text))
}

/// The present level is in brackets (kernel_lockdown(7)).
fn is_confidential(lockdown: &str) -> bool {
    lockdown.contains("[confidentiality]")
}

/// What gives a gwp-race without gates its gates.
#[must_use]
pub fn mend_gates() -> String {
    if forbid_ebpf() {
        "boot without lockdown=confidentiality, which forbids eBPF to read memory".to_owned()
    } else {
        for_own()
    }
}

/// What to do where perf_event_open(2) is not permitted.
pub(super) fn mend_events() -> String {
    let usual = "run as root, or see `gwp-race doctor` for the capability that is missing";
    match perf_event_paranoid() {
        Some(level) if level > USER_EVENTS => {
            format!(
                "kernel.perf_event_paranoid is {level}: sudo sysctl kernel.perf_event_paranoid={USER_EVENTS}, or {usual}"
            )
        }
        _ => usual.to_owned(),
    }
}

/// What to do where ptrace(2) is not permitted.
pub(super) fn mend_ptrace() -> String {
    mend_scope(ptrace_scope().unwrap_or_default(), geteuid().is_root())
}

fn mend_scope(scope: u32, is_root: bool) -> String {
    let held = "it may be traced by a debugger (see TracerPid in /proc/PID/status)";
    match scope {
        NO_ATTACH => format!(
            "Yama's ptrace_scope is {NO_ATTACH}, which switches ptrace off until the next boot: {}",
            mend_no_attach()
        ),
        1 | 2 if !is_root => format!(
            "Yama's ptrace_scope is {scope}: sudo sysctl kernel.yama.ptrace_scope=0, or run gwp-race as root (sudo); or {held}"
        ),
        _ if is_root => format!("{held}: end that first"),
        _ => format!("{held}, or belong to somebody else: run as root"),
    }
}

/// What takes [`NO_ATTACH`] back.
#[must_use]
pub fn mend_no_attach() -> &'static str {
    "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the level in brackets is the one that counts.
    #[test]
    fn levels_of_lockdown() {
        assert!(is_confidential("none integrity [confidentiality]\n"));
        assert!(!is_confidential("none [integrity] confidentiality\n"));
        assert!(!is_confidential(""));
    }

    /// Check that nobody is told to do what does not help: root is not Yama's concern but at its last setting, which no command changes.
    #[test]
    fn advice_fits_the_scope() {
        for (scope, is_root, named) in [
            (1, false, true),
            (2, false, true),
            (2, true, false),
            (0, false, false),
        ] {
            let mend = mend_scope(scope, is_root);
            assert_eq!(
                mend.contains("sysctl kernel.yama.ptrace_scope=0"),
                named,
                "{mend}"
            );
            assert!(mend.contains("TracerPid"), "{mend}");
        }
        for is_root in [false, true] {
            let mend = mend_scope(NO_ATTACH, is_root);
            assert!(
                mend.contains("ptrace_scope") && mend.contains("reboot"),
                "{mend}"
            );
            assert!(!mend.contains("sysctl kernel"), "{mend}");
        }
    }
}

//! Findings of machines that differ from this one, and of this one.

use super::super::Status as Verdict;
use super::capabilities::CAPABILITIES;
use super::*;

/// Check that versions compare as numbers.
#[test]
fn versions() {
    assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
    assert_eq!(version("5.4.0-216-generic"), Some((5, 4)));
    assert_eq!(version("6.1-rc1"), Some((6, 1)));
    assert_eq!(version(""), None);
    assert!(version("6.9.1") < Some(GOOD_KERNEL) && version("6.10.0") >= Some(GOOD_KERNEL));
}

/// Check which missing capabilities are told of; none stops the main job.
#[test]
fn capabilities() {
    let all = CAPABILITIES
        .iter()
        .fold(0, |all, capability| all | 1u64 << capability.bit);
    let status = |set| capability_check(set).status;
    assert_eq!(status(all), Verdict::Ok);
    assert_eq!(status(u64::MAX), Verdict::Ok);
    assert_eq!(status(0), Verdict::Warn);
    assert_eq!(status(all & !(1 << CAP_PERFMON)), Verdict::Warn);
    assert_eq!(
        status(all & !(1 << CAP_PERFMON) | 1 << CAP_SYS_ADMIN),
        Verdict::Ok
    );
    assert_eq!(status(all & !(1 << CAP_SYS_PTRACE)), Verdict::Warn);
    assert_eq!(
        status(all & !(1 << CAP_SYS_PTRACE) | 1 << CAP_SYS_ADMIN),
        Verdict::Warn
    );
    assert!(capability_check(0).found.contains("without eBPF gates"));
    let mend = capability_check(0).mend.unwrap();
    assert!(
        mend.contains("setcap cap_bpf,cap_perfmon,cap_checkpoint_restore+ep"),
        "{mend}"
    );
    assert!(mend.contains("whoever may execute"), "{mend}");
    let mend = capability_check(all & !(1 << CAP_SYS_PTRACE)).mend.unwrap();
    assert!(mend.contains("chmod 750"), "{mend}");
    assert!(
        mend.contains("setcap cap_bpf,cap_perfmon,cap_sys_ptrace"),
        "{mend}"
    );
}

/// Check that too few breakpoints stop the main job, with a command.
#[test]
fn breakpoints() {
    assert_eq!(free_breakpoints(4, "x").status, Verdict::Ok);
    assert_eq!(free_breakpoints(1, "x").status, Verdict::Fail);
}

/// Check that what the setting forbids follows from it, from the capabilities, and from what the kernel has in fact denied.
#[test]
fn paranoid_settings() {
    let perfmon = 1 << CAP_PERFMON;
    for (level, capabilities, is_denied, passes) in [
        (Some(2), 0, false, true),
        (Some(3), 0, true, false),
        (Some(3), perfmon, false, true),
        (Some(3), perfmon, true, false),
        (Some(4), 1 << CAP_SYS_ADMIN, false, true),
        (None, perfmon, false, false),
    ] {
        let check = paranoid(level, capabilities, is_denied);
        let told = format!("{level:?} {capabilities:x} {is_denied}: {check:?}");
        assert_eq!(told.contains("Ok"), passes, "{told}");
    }
}

/// Check the machine that the tests run on: whatever is found, a problem comes with a mend.
#[test]
fn this_machine() {
    let checks = checks();
    assert!(checks.len() >= 12, "{checks:?}");
    for check in &checks {
        assert_eq!(check.mend.is_none(), check.status == Verdict::Ok, "{check}");
    }
}

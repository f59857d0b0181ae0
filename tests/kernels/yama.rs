//! Yama's `ptrace_scope`: who may still watch what, and whether the others are told why not
//! (Documentation/admin-guide/LSM/Yama.rst in the kernel's sources).

use anyhow::{Result, bail, ensure};
use gwp_race_tests::Who;

use crate::{
    catching::{Came, Way, watch},
    kernel::set,
    rights::doctor_of,
};

/// The file that is to be named.
const SETTING: &str = "ptrace_scope";

/// Tries all that the scope concerns.
pub fn scope(scope: u8) -> Result<String> {
    set("kernel.yama.ptrace_scope", &scope.to_string())?;
    set("kernel.perf_event_paranoid", "2")?;
    let user = Who::OrdinaryUser(&["bpf", "perfmon"]);
    let mut told = Vec::new();
    let mut wrong = Vec::new();
    for (whose, who, run, attach) in [
        ("root", Who::Ourselves, scope < 3, scope < 3),
        ("a user", user, scope < 2, scope < 1),
        (
            "a user without eBPF",
            Who::OrdinaryUser(&[]),
            scope < 2,
            scope < 1,
        ),
    ] {
        let mut outcomes = Vec::new();
        for (name, way, allowed) in [("run", Way::Run, run), ("attach", Way::Attach, attach)] {
            let came = watch(who, way, &[])?;
            match (&came, allowed) {
                (Came::Caught(..), true) => {}
                (Came::Refused(code, said), false) => {
                    eprintln!("{SETTING} {scope}, {whose}, {name}: {code:?} {said}");
                    if !said.contains(SETTING) {
                        wrong.push(format!(
                            "{whose}, {name}: the error does not name {SETTING}: {said}"
                        ));
                    }
                }
                (Came::Caught(..), false) => wrong.push(format!("{whose}, {name}: it works")),
                (Came::Refused(_, said), true) => wrong.push(format!("{whose}, {name}: {said}")),
            }
            outcomes.push(format!("`{name}` {}", came.told()));
        }
        told.push(format!("{whose}: {}", outcomes.join(", ")));
        if !(run && attach) {
            let doctor = doctor_of(who)?;
            let advice = String::from_utf8_lossy(&doctor.stdout).into_owned();
            ensure!(advice.contains(SETTING), "doctor of {whose}: {advice}");
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(told.join("; "))
}

//! The capabilities that this gwp-race has, and those that it lacks.

use crate::cli::doctor::Check;
use crate::kernel::rights::{CAP_SYS_ADMIN, lent_to_all};
use crate::kernel::setcap::{for_others, for_own};

/// The capabilities that the main job uses (linux/capability.h), and what for.
pub(super) const CAPABILITIES: [Capability; 5] = [
    Capability {
        name: "CAP_BPF",
        bit: 39,
        vital: true,
        implied: true,
    },
    Capability {
        name: "CAP_PERFMON",
        bit: 38,
        vital: true,
        implied: true,
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        bit: 19,
        vital: false,
        implied: false,
    },
    Capability {
        name: "CAP_KILL",
        bit: 5,
        vital: false,
        implied: false,
    },
    Capability {
        name: "CAP_CHECKPOINT_RESTORE",
        bit: 40,
        vital: false,
        implied: true,
    },
];

pub(super) struct Capability {
    name: &'static str,
    pub(super) bit: u32,
    /// Without it there are no gates.
    vital: bool,
    /// `CAP_SYS_ADMIN` does as well.
    implied: bool,
}

impl Capability {
    fn is_in(&self, capabilities: u64) -> bool {
        has(capabilities, self.bit) || self.implied && has(capabilities, CAP_SYS_ADMIN)
    }
}

pub(super) fn has(capabilities: u64, bit: u32) -> bool {
    capabilities >> bit & 1 == 1
}

pub(super) fn capability_check(capabilities: u64) -> Check {
    let name = "capabilities";
    let missing: Vec<_> = CAPABILITIES
        .iter()
        .filter(|capability| !capability.is_in(capabilities))
        .collect();
    if missing.is_empty() {
        return Check::ok(name, "all that are needed");
    }
    let names: Vec<_> = missing.iter().map(|capability| capability.name).collect();
    let found = format!("without {}", names.join(", "));
    if missing.iter().any(|capability| capability.vital) {
        let lacking = "programs of one's own can be watched, without eBPF gates";
        return Check::warn(name, format!("{found}; {lacking}"), for_own());
    }
    let lacking = lent_to_all().unwrap_or("other users' processes cannot be watched");
    Check::warn(name, format!("{found}; {lacking}"), for_others())
}

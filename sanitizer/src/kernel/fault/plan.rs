//! The plan of a test, given by two variables of the environment, which all processes of a gwp-race
//! share, as they share the counting:
//!
//! - `GWP_RACE_FAULT_COUNTS` names a file. It becomes an array of records of 64 bytes, one a kind of
//!   call: its name, padded with zeros, and in the last eight bytes how many were announced so far.
//! - `GWP_RACE_FAULT` is what is to happen: `CALL FIRST LAST errno:N` has the calls of that kind from
//!   the first to the last one, counted from 1, fail with error N instead of being made;
//!   `CALL FIRST LAST kill:PID` kills a process before them, `CALL FIRST LAST kill:caller` whoever is about to make them.

use std::{
    fs::File,
    io,
    ops::RangeInclusive,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use memmap2::MmapRaw;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const COUNTS: &str = "GWP_RACE_FAULT_COUNTS";
const FAULT: &str = "GWP_RACE_FAULT";
const RECORD: usize = 64;
const NAME: usize = 56;

/// Every kind of call that is announced.
const CALLS: [&str; 37] = [
    "ptrace(PTRACE_SEIZE)",
    "ptrace(PTRACE_CONT)",
    "ptrace(PTRACE_LISTEN)",
    "ptrace(PTRACE_GETREGS)",
    "ptrace(PTRACE_GETSIGINFO)",
    "ptrace(PTRACE_GET_RSEQ_CONFIGURATION)",
    "waitid",
    "waitpid",
    "perf_event_open",
    "ioctl(PERF_EVENT_IOC_SET_BPF)",
    "ioctl(PERF_EVENT_IOC_ENABLE)",
    "ioctl(PERF_EVENT_IOC_DISABLE)",
    "ioctl(PERF_EVENT_IOC_MODIFY_ATTRIBUTES)",
    "ioctl(PERF_EVENT_IOC_ID)",
    "ioctl(PERF_EVENT_IOC_SET_OUTPUT)",
    "fcntl(F_SETOWN_EX)",
    "bpf(BPF_PROG_LOAD)",
    "bpf(BPF_RAW_TRACEPOINT_OPEN)",
    "bpf(BPF_MAP_CREATE)",
    "bpf(BPF_MAP_UPDATE_ELEM)",
    "mmap",
    "process_vm_readv",
    "prctl(PR_SET_PDEATHSIG)",
    "fork",
    "clone",
    "signalfd",
    "eventfd",
    "ppoll",
    "pidfd_open",
    "timer_create",
    "timer_settime",
    "bpf(BPF_LINK_CREATE)",
    "ioctl(PAGEMAP_SCAN)",
    "ioctl(PERF_EVENT_IOC_PERIOD)",
    "ioctl(PERF_EVENT_IOC_REFRESH)",
    "open",
    "get_robust_list",
];

struct Plan {
    counts: MmapRaw,
    fault: Option<Fault>,
}

struct Fault {
    call: String,
    numbers: RangeInclusive<u64>,
    action: Action,
}

enum Action {
    Fail(i32),
    Kill(Pid),
    KillCaller,
}

/// Counts a call, and says whether it is to fail.
pub fn next(call: &'static str) -> io::Result<()> {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let Some(plan) = PLAN.get_or_init(Plan::read) else {
        return Ok(());
    };
    let index = CALLS.iter().position(|name| *name == call);
    let index = index.unwrap_or_else(|| panic!("{call} is missing in the list of calls"));
    let number = plan.count(index);
    match &plan.fault {
        Some(fault) if fault.call == call && fault.numbers.contains(&number) => {
            match fault.action {
                Action::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
                Action::Kill(pid) => {
                    // It may be gone already.
                    let _ = kill(pid, Signal::SIGKILL);
                    Ok(())
                }
                Action::KillCaller => {
                    // Its own id, as it is after a fork.
                    let _ = kill(Pid::this(), Signal::SIGKILL);
                    Ok(())
                }
            }
        }
        _ => Ok(()),
    }
}

impl Plan {
    fn read() -> Option<Self> {
        let path = std::env::var_os(COUNTS)?;
        let plan = Self::map(
            &File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .ok()?,
        );
        let fault = std::env::var(FAULT).ok().map(|text| {
            Fault::parse(&text).unwrap_or_else(|| panic!("{FAULT} is of another form: {text}"))
        });
        Some(Self {
            counts: plan.unwrap_or_else(|error| panic!("{COUNTS}: {error}")),
            fault,
        })
    }

    fn map(file: &File) -> io::Result<MmapRaw> {
        file.set_len((CALLS.len() * RECORD) as u64)?;
        // The same bytes, whoever writes them.
        for (index, name) in CALLS.iter().enumerate() {
            use std::os::unix::fs::FileExt as _;
            file.write_all_at(name.as_bytes(), (index * RECORD) as u64)?;
        }
        MmapRaw::map_raw(file)
    }

    /// Counts a call: which one it is, from 1 on.
    fn count(&self, index: usize) -> u64 {
        let offset = index * RECORD + NAME;
        // SAFETY: the mapping has a record for each index and lives as long as `self`; the counter is
        // aligned, and only ever accessed by this operation.
        let counter = unsafe { AtomicU64::from_ptr(self.counts.as_mut_ptr().add(offset).cast()) };
        counter.fetch_add(1, SeqCst) + 1
    }
}

impl Fault {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let call = words.next()?.to_owned();
        let first = words.next()?.parse().ok()?;
        let last = words.next()?.parse().ok()?;
        let action = match words.next()?.split_once(':')? {
            ("errno", number) => Action::Fail(number.parse().ok()?),
            ("kill", "caller") => Action::KillCaller,
            ("kill", pid) => Action::Kill(Pid::from_raw(pid.parse().ok()?)),
            _ => return None,
        };
        (words.next().is_none() && CALLS.contains(&call.as_str())).then_some(Self {
            call,
            numbers: first..=last,
            action,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Calls that are announced in the sources of a folder, by what stands there: a name, or a constant of one.
    fn announced(folder: &Path, all: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("fault") {
                // These words stand there, too.
            } else if path.is_dir() {
                announced(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let beginnings = ["fault::before(", "self.before(", "const CALL: &str ="];
                let rests = beginnings
                    .iter()
                    .flat_map(|beginning| text.split(beginning).skip(1));
                let names =
                    rests.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
                all.extend(names.map(str::to_owned));
            }
        }
    }

    /// Check that each call which is announced somewhere is in the list: one that is not ends whoever makes it, where faults are tried.
    #[test]
    fn all_calls_are_known() {
        let mut all = BTreeSet::new();
        announced(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel"),
            &mut all,
        );
        announced(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hunt"),
            &mut all,
        );
        let known: BTreeSet<String> = CALLS.iter().map(|call| (*call).to_owned()).collect();
        let missing: Vec<_> = all.difference(&known).collect();
        assert!(all.len() > 20 && missing.is_empty(), "{missing:?}");
    }
}

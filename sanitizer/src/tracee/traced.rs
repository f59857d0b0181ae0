//! Who traces a process: that can be one only (ptrace(2)), so nobody else can watch it.

use nix::unistd::Pid;

use super::status::Status;
use super::threads;

/// What gwp-race's tracers and their watchdogs are called; the parent of those is the gwp-race that somebody has started.
const TRACER: &str = "gwp-race-tracer";
const WATCHDOG: &str = "gwp-race-guard";

/// Who traces a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracer {
    /// The process that does.
    pub process: Pid,
    /// Its name.
    pub name: String,
    /// The gwp-race that somebody has started, if it is the tracer of one.
    pub gwp_race: Option<Pid>,
}

impl Tracer {
    /// Who traces any thread of a process; nobody, too, where that process is gone or its tracer is in another pid namespace.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        let tids = threads::list(pid).ok()?;
        let traced_by = |tid| Status::of_thread(pid, tid).ok()?.tracer;
        // It is the thread that traces.
        let thread = tids.into_iter().find_map(traced_by)?;
        let status = Status::of_process(thread).ok()?;
        let process = status.tgid;
        let name = threads::name(process, process).unwrap_or(status.name);
        let gwp_race = (name == TRACER).then(|| started_by_user(status.parent).unwrap_or(process));
        Some(Self {
            process,
            name,
            gwp_race,
        })
    }

    /// What it does to a process, in words that end with what to do.
    #[must_use]
    pub fn told(&self, pid: Pid) -> String {
        let Self { process, name, .. } = self;
        match self.gwp_race {
            Some(other) => format!(
                "another gwp-race (process {other}) watches process {pid}, and a process has one tracer at most; end that one first: kill {other}"
            ),
            None => format!(
                "process {pid} is traced by {name} (process {process}), and a process has one tracer at most; end that debugger or strace first"
            ),
        }
    }
}

/// Of a tracer's parent: who has started it.
fn started_by_user(watchdog: Pid) -> Option<Pid> {
    let status = Status::of_process(watchdog).ok()?;
    (status.name == WATCHDOG).then_some(status.parent)
}

#[cfg(test)]
mod tests {
    use nix::sys::ptrace;

    use super::*;
    use crate::tracee::testing::Child;

    /// Check that the process is told whose thread traces one of the threads of another, and nobody where nobody does.
    #[test]
    fn tracers_are_found() {
        let child = Child::run("#include <unistd.h>\nint main() { pause(); }", &[]);
        assert_eq!(Tracer::of(child.pid()), None);
        ptrace::seize(child.pid(), ptrace::Options::empty()).unwrap();
        let tracer = Tracer::of(child.pid()).unwrap();
        assert_eq!((tracer.process, tracer.gwp_race), (Pid::this(), None));
        let told = tracer.told(child.pid());
        assert!(
            told.contains("is traced by ") && told.contains(&Pid::this().to_string()),
            "{told}"
        );
        let other = Tracer {
            gwp_race: Some(Pid::from_raw(7)),
            ..tracer
        };
        let told = other.told(child.pid());
        assert!(
            told.starts_with("another gwp-race (process 7) watches process "),
            "{told}"
        );
    }
}

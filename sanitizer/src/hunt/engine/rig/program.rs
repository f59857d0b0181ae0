//! The process that is watched, and what it has used of the processors.

use std::cell::OnceCell;
use std::time::Duration;

use crate::hunt::engine::{EngineError, as_pid};
use crate::kernel::process::{monotonic_ns, nanos};
use crate::tracee::memory::Resident;
use crate::tracee::process::{Architecture, cpu_time, executed, without_mark};
use crate::tracee::threads::{Scheduling, Stat};
use crate::tracee::{KeptFiles, TargetError};

use super::activity;
use super::activity::Activity;

/// See the module.
#[derive(Debug)]
pub struct Program {
    pub pid: u32,
    /// Its file, where that can be known: as modules are called, without the mark of one that was deleted.
    pub exe: String,
    /// CPU time that it had used before it was watched.
    cpu_before: Duration,
    /// CPU time that it has used since, at the last look, ns.
    seen_ns: u64,
    /// When the clocks were looked after last.
    pub activity: Activity,
    /// What that is read from.
    schedstats: KeptFiles,
    /// Which of its pages are in memory, since it executes what it does.
    resident: OnceCell<Resident>,
}

impl Program {
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            exe: String::new(),
            cpu_before: Duration::ZERO,
            seen_ns: 0,
            activity: Activity::default(),
            schedstats: Scheduling::files(),
            resident: OnceCell::new(),
        }
    }

    /// Whether the process was started when it should have been: ids are used again. One that is held by mistake is let go, untouched, by
    /// our exit.
    pub fn check_identity(&self, started: Option<u64>) -> Result<(), EngineError> {
        let Some(expected) = started else {
            return Ok(());
        };
        match Stat::read(as_pid(self.pid), as_pid(self.pid)) {
            Ok(stat) if stat.start_ticks != expected => Err(EngineError::Replaced(self.pid)),
            Err(error) if error.is_vanished() => Err(EngineError::Gone(self.pid)),
            // It passes, and a lease may be tried again.
            Err(error) if error.is_shortage() => Err(error.into()),
            // Where that is not to be known, the id has to do.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub fn check_architecture(&self) -> Result<(), EngineError> {
        if Architecture::of(as_pid(self.pid))?.is_x86_64() {
            Ok(())
        } else {
            Err(EngineError::Foreign(self.pid))
        }
    }

    /// It is watched from now on.
    pub fn begin(&mut self) -> Result<(), TargetError> {
        self.cpu_before = cpu_time(as_pid(self.pid))?;
        Ok(())
    }

    /// Which of its pages are in memory, as of now: the file that tells is opened once for each program that it executes, since it belongs to that one's
    /// memory. Nothing where it cannot be opened.
    pub fn resident(&self) -> Option<&Resident> {
        if self.resident.get().is_none()
            && let Ok(resident) = Resident::of(as_pid(self.pid))
        {
            let _ = self.resident.set(resident);
        }
        self.resident.get()
    }

    /// It executes another program, under this id.
    pub fn executes_another(&mut self, pid: u32) {
        self.pid = pid;
        self.resident = OnceCell::new();
    }

    /// Looks what it executes.
    pub fn look_at_file(&mut self) {
        self.exe = executed(as_pid(self.pid))
            .map(|path| without_mark(&path).to_string_lossy().into_owned())
            .unwrap_or_default();
    }

    /// CPU time that it has used while it was watched, ns.
    pub fn cpu_used(&self) -> u64 {
        let cpu = cpu_time(as_pid(self.pid)).unwrap_or_default();
        // Of one that has ended this moment only that is known which was seen before.
        nanos(cpu.saturating_sub(self.cpu_before)).max(self.seen_ns)
    }

    /// It was seen to have used so much; what of it is new.
    pub const fn saw(&mut self, used_ns: u64) -> u64 {
        let new = used_ns.saturating_sub(self.seen_ns);
        self.seen_ns = used_ns;
        new
    }

    /// What it has done until now is not what it does. `tids`: those of its threads that are held.
    pub fn begin_activity(&mut self, mut tids: Vec<u32>) {
        tids.sort_unstable();
        let some = tids.iter().take(activity::SOME);
        self.schedstats
            .retain(|kept| tids.binary_search(&kept.as_raw().cast_unsigned()).is_ok());
        let (pid, files) = (as_pid(self.pid), &mut self.schedstats);
        let threads = some.filter_map(|&tid| Some((tid, Scheduling::of(files, pid, as_pid(tid))?)));
        self.activity = Activity {
            time_ns: monotonic_ns(),
            used_ns: self.seen_ns,
            threads: threads.collect(),
            count: tids.len(),
            dear: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use crate::{
        hunt::{
            arming::Processors,
            engine::{Engine, Lasting},
            loader::Loader,
            strategy::Name,
            wire::{Outbox, Setup},
        },
        kernel::{gates::Gates, perf::Delivery, process::WorkClock, tables::Tables},
        tracee::testing::Child,
    };

    use super::*;

    fn engine(pid: u32, start_ticks: Option<u64>) -> Engine {
        let setup = Setup {
            start_ticks,
            is_child: true,
            strategy: Name::Clock,
            seed: 1,
            ..Setup::usual(pid)
        };
        let lasting = Lasting {
            gates: Gates::in_user_space().unwrap(),
            loader: Loader::start(Tables::unneeded(), WorkClock::of_share(1)).unwrap(),
            clock: WorkClock::of_share(1),
            processors: Processors::default(),
            trap_cost_ns: 1000,
        };
        let (socket, _) = UnixStream::pair().unwrap();
        let delivery = Delivery::GateSignal(libc::SIGURG as u8);
        Engine::new(setup, lasting, delivery, Outbox::new(socket), 0)
    }

    /// Check that a program which was deleted since, as by an upgrade, is called as its module is, by which its build is found.
    #[test]
    fn a_deleted_program_keeps_its_name() {
        let child = Child::run("#include <unistd.h>\nint main() { pause(); }", &[]);
        let exe = child.exe();
        let mut program = Program::new(child.pid().as_raw().cast_unsigned());
        for is_deleted in [false, true] {
            if is_deleted {
                std::fs::remove_file(&exe).unwrap();
            }
            program.look_at_file();
            assert_eq!(program.exe, exe.to_string_lossy());
        }
    }

    /// Check that a process which has the id of the one that is meant is not watched, also where that is noticed only once it is held: no
    /// event is opened, and it runs on.
    #[test]
    fn a_process_with_the_same_id_is_let_alone() {
        let child = Child::run("#include <unistd.h>\nint main() { pause(); }", &[]);
        child.wait_for_state('S');
        let pid = child.pid().as_raw().cast_unsigned();
        let started = Stat::read(child.pid(), child.pid()).unwrap().start_ticks;
        for expected in [Some(started), None] {
            Program::new(pid).check_identity(expected).unwrap();
        }
        // Not even held.
        let mut other = engine(pid, Some(started + 1));
        assert!(matches!(other.attach(), Err(EngineError::Replaced(at)) if at == pid));
        assert!(other.rig.arming.is_empty());
        // Held, but nothing more.
        let held = std::thread::spawn(move || {
            let mut other = engine(pid, Some(started + 1));
            let adopted = other.adopt_threads();
            assert!(matches!(adopted, Err(EngineError::Replaced(at)) if at == pid));
            assert_eq!(other.rig.arming.ticking_cpus(), 0);
            other
                .rig
                .arming
                .take_records(|_, _| panic!("events were opened"));
        });
        held.join().unwrap();
        // A thread that traces lets go by its end.
        child.wait_for_state('S');
    }
}

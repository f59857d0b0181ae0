//! Whether a process is the one that is to be watched: ids are used again.

use crate::tracee::threads::Stat;

use super::{Engine, EngineError, as_pid};

impl Engine {
    /// Whether the process was started when it should have been. One that is held by mistake is let go, untouched, by
    /// our exit.
    pub(super) fn check_identity(&self) -> Result<(), EngineError> {
        let Some(expected) = self.setup.start_ticks else {
            return Ok(());
        };
        match Stat::read(as_pid(self.pid), as_pid(self.pid)) {
            Ok(stat) if stat.start_ticks != expected => Err(EngineError::Replaced(self.pid)),
            Err(error) if error.is_vanished() => Err(EngineError::Gone(self.pid)),
            // Where that is not to be known, the id has to do.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use crate::{
        hunt::{
            engine::Lasting,
            loader::Loader,
            strategy::Name,
            wire::{Outbox, Setup},
        },
        kernel::{gates::Gates, perf::Delivery, tables::Tables},
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
            loader: Loader::start(Tables::unneeded()).unwrap(),
            trap_cost_ns: 1000,
        };
        let (socket, _) = UnixStream::pair().unwrap();
        let delivery = Delivery::GateSignal(libc::SIGURG as u8);
        Engine::new(setup, lasting, delivery, Outbox::new(socket), 0)
    }

    /// Check that a process which has the id of the one that is meant is not watched, also where that is noticed only once it is held: no
    /// event is opened, and it runs on.
    #[test]
    fn a_process_with_the_same_id_is_let_alone() {
        let child = Child::run("#include <unistd.h>\nint main() { pause(); }", &[]);
        child.wait_for_state('S');
        let pid = child.pid().as_raw().cast_unsigned();
        let started = Stat::read(child.pid(), child.pid()).unwrap().start_ticks;
        engine(pid, Some(started)).check_identity().unwrap();
        engine(pid, None).check_identity().unwrap();
        // Not even held.
        let mut other = engine(pid, Some(started + 1));
        assert!(matches!(other.attach(), Err(EngineError::Replaced(at)) if at == pid));
        assert!(other.arming.is_empty());
        // Held, but nothing more.
        let held = std::thread::spawn(move || {
            let mut other = engine(pid, Some(started + 1));
            let adopted = other.adopt_threads();
            assert!(matches!(adopted, Err(EngineError::Replaced(at)) if at == pid));
            assert_eq!(other.arming.ticking_cpus(), 0);
            other
                .arming
                .take_records(|_, _| panic!("events were opened"));
        });
        held.join().unwrap();
        // A thread that traces lets go by its end.
        child.wait_for_state('S');
    }
}

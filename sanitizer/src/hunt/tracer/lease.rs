//! A lease: a thread that watches one process, from its first look to its last word. When it ends, the kernel lets go whoever it still holds.

use std::{os::fd::AsFd as _, time::Duration};

use crate::hunt::bounds;
use crate::hunt::delivery::{LAST_RESORT, choose_delivery};
use crate::hunt::ending::FAILED;
use crate::hunt::engine::{Engine, EngineError, Lasting};
use crate::hunt::wire::{Command, Ending, Notice, Outbox, Setup};
use crate::kernel::process::{self, Ear};

use super::commands::Commands;
use super::pulse::Pulse;

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Lease<'a> {
    pub(super) commands: &'a mut Commands,
    pub(super) ear: &'a Ear,
    /// How long a thread may be held: the watchdog goes by that.
    pub(super) deadline: Duration,
    /// CPU time of this slot and its part of the watchdog that the daemon knows of, or that was sampling, ns.
    pub(super) told_cpu_ns: &'a mut u64,
}

/// What is left when a lease is over.
pub(super) struct Over {
    /// For the next one.
    pub(super) lasting: Lasting,
    /// The thread whose end lets go whoever it still holds.
    pub(super) tid: u32,
    /// There is none: the tracer's part of the daemon is gone, or does not listen. The exit code.
    pub(super) end: Option<u8>,
}

impl Lease<'_> {
    /// Watches a process until it ends, or the daemon says so.
    pub(super) fn watch(mut self, setup: Setup, lasting: Lasting, mut outbox: Outbox) -> Over {
        process::precise_timers();
        process::hurry(process::Urgency::Urgent);
        let begun = bounds::check(&setup, self.deadline).and_then(|()| {
            let delivery = choose_delivery(setup.pid, &lasting.gates);
            let delivery = delivery.map_err(|error| error.to_string())?;
            let pulse = Pulse::new(self.deadline).map_err(|error| error.to_string())?;
            Ok((delivery.unwrap_or(LAST_RESORT), pulse))
        });
        let (delivery, mut pulse) = match begun {
            Ok(both) => both,
            Err(text) => {
                outbox.send(&Notice::Failed(text));
                let end = outbox.is_pending().then_some(FAILED);
                return Over {
                    lasting,
                    tid: process::thread_id(),
                    end,
                };
            }
        };
        outbox.send(&Notice::Debug(format!("threads are stopped by {delivery}")));
        let mut engine = Engine::new(setup, lasting, delivery, outbox, *self.told_cpu_ns);
        let result = self.hunt(&mut engine, &mut pulse);
        let code = if result.is_ok() { 0 } else { FAILED };
        if let Err(error) = result {
            engine.end(Ending::Stopped);
            if error.is_out_of_breakpoints() {
                engine.outbox().send(&Notice::BreakpointsTaken);
            }
            engine.outbox().send(&Notice::Failed(error.to_string()));
        }
        // Until now it was sampling, of which the statistics tell.
        *self.told_cpu_ns = engine.worked_ns();
        say_farewell(&mut engine, &mut pulse);
        let is_over = self.commands.are_over || engine.outbox().is_pending();
        // What is armed is closed here, before anybody is let go. The watchdog has nothing to look after then.
        let lasting = engine.into_lasting();
        lasting.clock.hand_over();
        Over {
            lasting,
            tid: process::thread_id(),
            end: is_over.then_some(code),
        }
    }

    /// Handles stops, events and commands until the engine has ended.
    fn hunt(&mut self, engine: &mut Engine, pulse: &mut Pulse) -> Result<(), EngineError> {
        if engine.is_launch() {
            engine.launch()?;
        } else {
            engine.attach()?;
        }
        while engine.ending().is_none() {
            let sleep = engine.sleep();
            pulse.announce_heartbeat(engine, sleep)?;
            let end = engine.end_of_process();
            let [child, told] = self.ear.fds();
            let [child, told, command, _event, look, ended] = process::wait_readable(
                [
                    child,
                    told,
                    self.commands.socket.as_fd(),
                    engine.gates().events_fd(),
                    engine.news(),
                    end.unwrap_or(child),
                ],
                Some(sleep),
            )?;
            let has_ended = ended && end.is_some();
            pulse.announce_heartbeat(engine, Duration::ZERO)?;
            if has_ended {
                engine.end(Ending::TargetEnded);
                break;
            }
            if child || told {
                self.ear.hear();
            }
            if look {
                engine.hear();
            }
            engine.turn(child || told)?;
            engine.end_when_spent();
            if command {
                self.commands.read();
            }
            while let Some(command) = self.commands.next() {
                match command {
                    Command::Charge(ns) => engine.charge(ns),
                    Command::Company(used) => engine.has_company(used),
                    Command::TellAgain => engine.tell_again(),
                    Command::Refuted(refuted) => engine.refute(refuted),
                    Command::Remember(remembered) => engine.remember(remembered),
                    Command::Leave => engine.end(Ending::Stopped),
                    // The former ends this, the latter comes only when nobody is watched.
                    Command::Stop | Command::Watch(_) => {}
                }
            }
            if self.commands.are_over {
                engine.end(Ending::Stopped);
            }
            engine.outbox().flush();
        }
        Ok(())
    }
}

/// What is still pending is sent while the target is already disarmed. It stays held meanwhile,
/// so its signals are passed on; one that may crash it waits for the last words only.
fn say_farewell(engine: &mut Engine, pulse: &mut Pulse) {
    // Should the kernel not hear of it, it may end this process while it has something to say.
    let _ = pulse.announce_heartbeat(engine, FAREWELL);
    let mut until = process::monotonic_ns() + process::nanos(FAREWELL);
    let mut crashes = false;
    while engine.outbox().is_pending() && process::monotonic_ns() < until {
        if !crashes && !engine.serve_stops() {
            crashes = true;
            until = process::monotonic_ns() + process::nanos(engine.last_words());
        }
        std::thread::sleep(Duration::from_micros(500));
        engine.outbox().flush();
    }
}

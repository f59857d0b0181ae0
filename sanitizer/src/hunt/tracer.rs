//! The tracer process: the body of `gwp-race __tracer`, started by the daemon for a target, or to be ready for one that is still to come.
//! When its target has ended it is ready for another one: nothing has to be loaded for that.
//!
//! Its standard input is the socket to the daemon. What is started first becomes the watchdog, and
//! its child the tracer. Both die with the daemon (`PR_SET_PDEATHSIG`, and the socket's end), and
//! the death of either at any instant leaves the target unharmed.

mod commands;
mod preparation;

use std::{
    ops::ControlFlow,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use super::delivery::{LAST_RESORT, choose_delivery};
use super::ending::FAILED;
use super::engine::{Engine, EngineError, Lasting};
use super::loader::Loader;
use super::wire::{Command, Ending, Notice, Outbox, Preparation, Setup};
use super::{bounds, watchdog};
use crate::kernel::dead_man::DeadMansSwitch;
use crate::kernel::gates::Gates;
use crate::kernel::{KernelError, process, ptrace};

use commands::Commands;

use preparation::prepare;

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs until the daemon says so or is gone, or somebody is held whom only the exit of this process lets go: the exit code. The
/// calling process becomes the watchdog, its child the tracer.
#[must_use]
pub fn run(socket: OwnedFd) -> u8 {
    let mut socket = UnixStream::from(socket);
    let split = prepare(&mut socket).and_then(|ready| {
        let child = process::split().map_err(|error| error.to_string())?;
        Ok((ready, child))
    });
    match split {
        Ok((ready, None)) => trace(ready, socket),
        Ok((ready, Some(tracer))) => {
            // The end of the socket tells the daemon that the tracer is gone.
            drop(socket);
            watch_over(tracer, ready)
        }
        Err(message) => {
            Outbox::new(socket).send(&Notice::Failed(message));
            FAILED
        }
    }
}

/// What watchdog and tracer have in common.
struct Ready {
    preparation: Preparation,
    gates: Gates,
    /// Why there are no gates, where there are none.
    refusal: Option<String>,
    trap_cost_ns: u64,
    /// Readable when a child or tracee has news.
    news: OwnedFd,
}

/// The watchdog's body.
fn watch_over(tracer: u32, mut ready: Ready) -> u8 {
    process::set_name(c"gwp-race-guard");
    process::hurry(process::Urgency::MostUrgent);
    let deadline = Duration::from_nanos(ready.preparation.stop_deadline_ns);
    let result = watchdog::guard(tracer, &mut ready.gates, &ready.news, deadline);
    if result.is_err() {
        process::kill_child(tracer);
    }
    result.map_or(FAILED, |code| u8::try_from(code).unwrap_or(FAILED))
}

/// The tracer's body: watches one process after another, as the daemon says.
fn trace(ready: Ready, socket: UnixStream) -> u8 {
    process::set_name(c"gwp-race-tracer");
    process::precise_timers();
    process::hurry(process::Urgency::Urgent);
    let Ok(outbox) = socket.try_clone().map(Outbox::new) else {
        // Without a descriptor there is nobody to tell.
        return FAILED;
    };
    let mut tracer = Tracer {
        commands: Commands::from(socket),
        news: ready.news,
        deadline: Duration::from_nanos(ready.preparation.stop_deadline_ns),
        told_cpu_ns: 0,
    };
    let lasting = start_loader(ready.gates).map(|(gates, loader)| Lasting {
        gates,
        loader,
        trap_cost_ns: ready.trap_cost_ns,
    });
    let mut lasting = match lasting {
        Ok(lasting) => lasting,
        Err(error) => return tracer.fail(outbox, &error),
    };
    let mut outbox = outbox;
    if let Some(refusal) = ready.refusal {
        outbox.send(&Notice::WithoutGates(refusal));
    }
    loop {
        outbox.send(&Notice::Ready {
            cpu_ns: tracer.new_cpu_ns(),
        });
        let Ok(Some(setup)) = tracer.commands.next_setup(&mut outbox) else {
            return 0;
        };
        let pid = setup.pid;
        match tracer.watch(setup, lasting, outbox) {
            Next::Break(code) => return code,
            Next::Continue(left) => lasting = left,
        }
        outbox = match tracer.commands.socket.try_clone() {
            Ok(socket) => Outbox::new(socket),
            Err(_) => return FAILED,
        };
        if tracer.leave(pid, &mut lasting.loader).is_err() {
            return FAILED;
        }
    }
}

fn start_loader(mut gates: Gates) -> Result<(Gates, Loader), KernelError> {
    let tables = gates.take_tables().ok_or_else(|| {
        KernelError::other("starting", "the loader", "the gates' tables are taken")
    })?;
    let loader = Loader::start(tables)?;
    Ok((gates, loader))
}

/// What comes after a process was watched: another one, where nobody is held, or the end of this process with a code, which is what lets
/// everybody go who is.
type Next = ControlFlow<u8, Lasting>;

/// The tracer, beside what is for its process.
struct Tracer {
    commands: Commands,
    news: OwnedFd,
    /// How long a thread may be held: the watchdog goes by that.
    deadline: Duration,
    /// CPU time of this process and its watchdog that the daemon knows of, or that was sampling, ns.
    told_cpu_ns: u64,
}

impl Tracer {
    /// CPU time that was not told yet, ns; it is now.
    fn new_cpu_ns(&mut self) -> u64 {
        let used = process::pair_cpu_time_ns();
        used.saturating_sub(std::mem::replace(&mut self.told_cpu_ns, used))
    }

    fn fail(&self, mut outbox: Outbox, error: &dyn std::fmt::Display) -> u8 {
        outbox.send(&Notice::Failed(error.to_string()));
        FAILED
    }

    /// Watches a process until it ends, or the daemon says so.
    fn watch(&mut self, setup: Setup, lasting: Lasting, mut outbox: Outbox) -> Next {
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
                return next(lasting, &outbox);
            }
        };
        outbox.send(&Notice::Debug(format!("threads are stopped by {delivery}")));
        let mut engine = Engine::new(setup, lasting, delivery, outbox, self.told_cpu_ns);
        let result = self.hunt(&mut engine, &mut pulse);
        let code = if result.is_ok() { 0 } else { FAILED };
        if let Err(error) = result {
            engine.end(Ending::Stopped);
            engine.outbox().send(&Notice::Failed(error.to_string()));
        }
        // Until now it was sampling, of which the statistics tell.
        self.told_cpu_ns = process::pair_cpu_time_ns();
        say_farewell(&mut engine, &mut pulse);
        let is_over = self.commands.are_over || engine.outbox().is_pending();
        if is_over || !ptrace::holds_nobody() {
            return Next::Break(code);
        }
        Next::Continue(engine.into_lasting())
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
            let [child, command, _event, look, ended] = process::wait_readable(
                [
                    self.news.as_fd(),
                    self.commands.socket.as_fd(),
                    engine.gates().events_fd(),
                    engine.news(),
                    end.unwrap_or(self.news.as_fd()),
                ],
                Some(sleep),
            )?;
            let has_ended = ended && end.is_some();
            pulse.announce_heartbeat(engine, Duration::ZERO)?;
            if has_ended {
                engine.end(Ending::TargetEnded);
                break;
            }
            if child {
                process::drain(self.news.as_fd());
            }
            if look {
                engine.hear();
            }
            engine.turn(child)?;
            if command {
                self.commands.read();
            }
            while let Some(command) = self.commands.next() {
                match command {
                    Command::Charge(ns) => engine.charge(ns),
                    Command::Company(has) => engine.has_company(has),
                    Command::TellAgain => engine.tell_again(),
                    Command::Refuted(refuted) => engine.refute(refuted),
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

    /// Has the loader forget a process, and waits until it is there for another one; it may still read a large file. An error where the
    /// daemon does not want one, or is gone.
    fn leave(&mut self, pid: u32, loader: &mut Loader) -> Result<(), ()> {
        loader.leave(pid);
        while !loader.has_left().map_err(drop)? {
            let fds = [loader.news(), self.commands.socket.as_fd()];
            let [answer, command] = process::wait_readable(fds, None).map_err(drop)?;
            if answer {
                loader.hear();
            }
            if command {
                self.commands.read();
            }
            // What else is said is about a process that has ended.
            while self.commands.next().is_some() {}
            if self.commands.are_over {
                return Err(());
            }
        }
        Ok(())
    }
}

/// What comes when a process could not be held at all.
fn next(lasting: Lasting, outbox: &Outbox) -> Next {
    if outbox.is_pending() {
        Next::Break(FAILED)
    } else {
        Next::Continue(lasting)
    }
}

/// Says when the tracees are looked at next: to the watchdog, and to the kernel, which ends this process if that does not come and the watchdog
/// does nothing.
struct Pulse {
    switch: DeadMansSwitch,
    late: Duration,
}

impl Pulse {
    fn new(deadline: Duration) -> Result<Self, KernelError> {
        Ok(Self {
            switch: DeadMansSwitch::new()?,
            late: watchdog::at_the_latest(deadline),
        })
    }

    fn announce_heartbeat(&mut self, engine: &Engine, after: Duration) -> Result<(), KernelError> {
        engine.announce_heartbeat(after);
        let look = process::monotonic_ns().saturating_add(process::nanos(after));
        self.switch
            .go_on_until(look.saturating_add(process::nanos(self.late)))
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

#[cfg(test)]
mod tests;

//! The tracer process: the body of `gwp-race __tracer`, started by the daemon for its targets, or to be ready for those that are still to come.
//! When a target has ended it is ready for another one: nothing has to be loaded for that.
//!
//! It has as many *slots* as it was started with: gates, a loader and a socket to the daemon each. A slot watches one process at a time: that is a *lease*
//! (`slot.rs`, `lease.rs`). A lease is a thread, since who holds a thread of a program is a thread: its end lets go whom it holds, whatever the others do.
//!
//! Its standard input is the first slot's socket. What is started first becomes the watchdog, and
//! its child the tracer. Both die with the daemon (`PR_SET_PDEATHSIG`, and the socket's end), and
//! the death of either at any instant leaves the targets unharmed.

mod commands;
mod lease;
mod preparation;
mod pulse;
mod slot;

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    panic,
    time::Duration,
};

use super::arming::Processors;
use super::ending::FAILED;
use super::watchdog;
use super::wire::{Notice, Outbox, Preparation};
use crate::kernel::gates::Gates;
use crate::kernel::process::{self, Ear, WorkClock};

use preparation::prepare;
use slot::Slot;

/// Runs until the daemon says so or is gone: the exit code. The calling process becomes the watchdog, its child the tracer.
#[must_use]
pub fn run(socket: OwnedFd) -> u8 {
    let mut socket = UnixStream::from(socket);
    let split = prepare(&mut socket).and_then(|ready| {
        let child = process::split().map_err(|error| error.to_string())?;
        Ok((ready, child))
    });
    match split {
        Ok((ready, None)) => {
            end_with_any_thread();
            trace(ready, socket)
        }
        Ok((ready, Some(tracer))) => {
            // The end of the sockets tells the daemon that the tracer is gone.
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
    /// A slot's each; the first one has none of its own for its socket.
    gates: Vec<Gates>,
    sockets: Vec<UnixStream>,
    /// Why there are no gates, where there are none.
    refusal: Option<String>,
    trap_cost_ns: u64,
    /// Readable when a child or tracee has news; a slot's each.
    ears: Vec<Ear>,
}

/// The watchdog's body.
fn watch_over(tracer: u32, ready: Ready) -> u8 {
    let Ready {
        preparation,
        mut gates,
        sockets,
        ears,
        ..
    } = ready;
    drop(sockets);
    process::set_name(c"gwp-race-guard");
    process::hurry(process::Urgency::MostUrgent);
    let deadline = Duration::from_nanos(preparation.stop_deadline_ns);
    let Some(ear) = ears.first() else {
        return FAILED;
    };
    let result = watchdog::guard(tracer, &mut gates, ear.signals(), deadline);
    if result.is_err() {
        process::kill_child(tracer);
    }
    result.map_or(FAILED, |code| u8::try_from(code).unwrap_or(FAILED))
}

/// The tracer's body: its slots watch one process after another, as the daemon says.
fn trace(ready: Ready, socket: UnixStream) -> u8 {
    process::set_name(c"gwp-race-tracer");
    let Ready {
        preparation,
        gates,
        sockets,
        refusal,
        trap_cost_ns,
        ears,
    } = ready;
    let count = gates.len();
    let processors = Processors::new(preparation.leaves_breakpoints);
    let sockets = std::iter::once(socket).chain(sockets);
    let slots = gates.into_iter().zip(sockets).zip(ears);
    let mut slots = slots.map(|((gates, socket), ear)| Slot {
        gates,
        socket,
        ear,
        refusal: refusal.clone(),
        trap_cost_ns,
        deadline: Duration::from_nanos(preparation.stop_deadline_ns),
        clock: WorkClock::of_share(count),
        processors: processors.clone(),
    });
    let Some(first) = slots.next() else {
        return FAILED;
    };
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        for slot in slots {
            let thread = std::thread::Builder::new().name("gwp-race-slot".to_owned());
            match thread.spawn_scoped(scope, || slot.serve()) {
                Ok(thread) => others.push(thread),
                // Its socket is closed, of which the daemon hears.
                Err(_) => continue,
            }
        }
        let first = first.serve();
        let codes = others.into_iter().map(|slot| slot.join().unwrap_or(FAILED));
        codes.fold(first, u8::max)
    })
}

/// From now on the panic of any thread ends the process, which lets everybody go: where one thread alone unwinds, those may stay held that it has not got to.
fn end_with_any_thread() {
    /// As of a panic of the first thread.
    const PANICKED: libc::c_int = 101;
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        tell(info);
        // SAFETY: it ends the process, and does nothing else in it.
        unsafe { libc::_exit(PANICKED) };
    }));
}

#[cfg(test)]
mod tests;

//! The tracer process: the body of `gwp-race __tracer`, started by the daemon for one target.
//!
//! Its standard input is the socket to the daemon. What is started first becomes the watchdog, and
//! its child the tracer. Both die with the daemon (`PR_SET_PDEATHSIG`, and the socket's end), and
//! the death of either at any instant leaves the target unharmed.

use std::{
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use super::{
    engine::{Engine, EngineError},
    watchdog,
    wire::{self, Command, Ending, Notice, Outbox, Setup},
};
use crate::{
    kernel::{
        calibrate::trap_cost_ns,
        gates::{GateLog, Gates},
        perf::Delivery,
        process,
    },
    target::{self, TargetError, status::Status},
};

/// Linux before this did not let a gate suppress the SIGTRAP of its event (commit c4fcc7d1).
const SIGTRAP_SUPPRESSION: (u32, u32) = (6, 10);

/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// The exit code of a tracer that failed.
pub(super) const FAILED: u8 = 1;

/// Runs until the target ends, the daemon says so or is gone: the exit code. The calling process
/// becomes the watchdog, its child the tracer.
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
    setup: Setup,
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
    let deadline = Duration::from_nanos(ready.setup.stop_deadline_ns);
    let result = watchdog::guard(tracer, &mut ready.gates, &ready.news, deadline);
    if result.is_err() {
        process::kill_child(tracer);
    }
    result.map_or(FAILED, |code| u8::try_from(code).unwrap_or(FAILED))
}

/// The tracer's body.
fn trace(ready: Ready, mut socket: UnixStream) -> u8 {
    process::set_name(c"gwp-race-tracer");
    process::precise_timers();
    process::hurry(process::Urgency::Urgent);
    let Ok(mut outbox) = socket.try_clone().map(Outbox::new) else {
        // Without a descriptor there is nobody to tell.
        return FAILED;
    };
    if let Some(refusal) = ready.refusal {
        outbox.send(&Notice::WithoutGates(refusal));
    }
    let engine = choose_delivery(ready.setup.pid, &ready.gates)
        .map_err(EngineError::from)
        .and_then(|delivery| {
            let cost = ready.trap_cost_ns;
            Ok(Engine::new(
                ready.setup,
                ready.gates,
                delivery,
                cost,
                outbox,
            )?)
        });
    let mut engine = match engine {
        Ok(engine) => engine,
        Err(error) => {
            Outbox::new(socket).send(&Notice::Failed(error.to_string()));
            return FAILED;
        }
    };
    let result = hunt(&mut engine, &mut socket, &ready.news);
    let code = if result.is_ok() { 0 } else { FAILED };
    if let Err(error) = result {
        engine.end(Ending::Stopped);
        engine.outbox().send(&Notice::Failed(error.to_string()));
    }
    say_farewell(&mut engine);
    code
}

/// What is still pending is sent while the target is already disarmed. It stays held meanwhile,
/// so its signals are passed on; one that may crash it waits for the last words only.
fn say_farewell(engine: &mut Engine) {
    engine.announce_look(FAREWELL);
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

fn prepare(socket: &mut UnixStream) -> Result<Ready, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    process::die_with_parent().map_err(|error| text(&error))?;
    process::raise_file_limit();
    let news = process::child_news().map_err(|error| text(&error))?;
    let mut prefix = [0; 4];
    socket
        .read_exact(&mut prefix)
        .map_err(|error| text(&error))?;
    let len = u32::from_le_bytes(prefix) as usize;
    if len > wire::MAX_MESSAGE {
        return Err("the daemon is of another version; start both from one file".to_owned());
    }
    let mut body = vec![0; len];
    socket.read_exact(&mut body).map_err(|error| text(&error))?;
    let setup: Setup = postcard::from_bytes(&body).map_err(|error| text(&error))?;
    socket.set_nonblocking(true).map_err(|error| text(&error))?;
    check_proc()?;
    let log = if setup.gate_log {
        GateLog::Debug
    } else {
        GateLog::Off
    };
    let (gates, refusal) = match Gates::load(log) {
        Ok(gates) => (gates, None),
        // What is left is enough for programs of one's own.
        Err(error) if error.is_refusal() => {
            let gates = Gates::in_user_space().map_err(|error| text(&error))?;
            (gates, Some(text(&error)))
        }
        Err(error) => return Err(text(&error)),
    };
    let trap_cost_ns = trap_cost_ns(&gates).map_err(|error| text(&error))?;
    Ok(Ready {
        setup,
        gates,
        refusal,
        trap_cost_ns,
        news,
    })
}

/// What `/proc` tells must be about the processes that this one means by their ids.
fn check_proc() -> Result<(), String> {
    if target::process::proc_is_ours() {
        return Ok(());
    }
    Err(
        "/proc is that of another pid namespace, or not mounted; mount the present one: \
         mount -t proc proc /proc"
            .to_owned(),
    )
}

fn hunt(engine: &mut Engine, socket: &mut UnixStream, news: &OwnedFd) -> Result<(), EngineError> {
    if engine.is_launch() {
        engine.launch()?;
    } else {
        engine.attach()?;
    }
    let mut commands = Vec::new();
    while engine.ending().is_none() {
        let sleep = engine.sleep();
        engine.announce_look(sleep);
        let [child, command, _event, _look] = process::wait_readable(
            [
                news.as_fd(),
                socket.as_fd(),
                engine.gates().events_fd(),
                engine.loader().news(),
            ],
            Some(sleep),
        )?;
        engine.announce_look(Duration::ZERO);
        if child {
            process::drain(news.as_fd());
        }
        engine.turn()?;
        if command && !read_commands(socket, &mut commands) {
            engine.end(Ending::Stopped);
        }
        while let Ok(Some(command)) = wire::decode(&mut commands) {
            match command {
                Command::Stop => engine.end(Ending::Stopped),
                Command::Charge(ns) => engine.charge(ns),
                Command::Company(has) => engine.has_company(has),
                Command::TellAgain => engine.tell_again(),
            }
        }
        engine.outbox().flush();
    }
    Ok(())
}

/// Reads what has come; false when the daemon is gone.
fn read_commands(socket: &mut UnixStream, commands: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 256];
    loop {
        match socket.read(&mut chunk) {
            Ok(0) => return false,
            Ok(read) => commands.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// How threads of a process can be stopped harmlessly now (invariant I1).
///
/// # Errors
/// Fails when the process is gone.
pub fn choose_delivery(pid: u32, gates: &Gates) -> Result<Delivery, TargetError> {
    let status = Status::of_process(nix::unistd::Pid::from_raw(pid.cast_signed()))?;
    // Without gates nobody would see a program change what it does with SIGTRAP.
    if gates.are_in_kernel()
        && status.ignored.contains_number(libc::SIGTRAP)
        && gates_suppress_sigtrap()
    {
        return Ok(Delivery::Sigtrap);
    }
    let harmless = [libc::SIGURG, libc::SIGWINCH]
        .into_iter()
        .find(|&signal| {
            !status.caught.contains_number(signal) && !status.blocked.contains_number(signal)
        })
        .unwrap_or(libc::SIGURG);
    Ok(Delivery::GateSignal(harmless as u8))
}

fn gates_suppress_sigtrap() -> bool {
    let Ok(name) = nix::sys::utsname::uname() else {
        return false;
    };
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= SIGTRAP_SUPPRESSION
}

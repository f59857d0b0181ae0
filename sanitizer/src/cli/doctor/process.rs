//! Whether a running process can be watched. It is only read, never stopped.

use std::sync::Arc;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::machine::{free_breakpoints, most_files, threads_for};
use super::metadata::{self, Carried, has_lines, lines_check};
use super::{Check, plural};
use crate::hunt::delivery::gates_suppress_sigtrap;
use crate::kernel::probe;
use crate::symbols::{DebugDirs, ModuleInfo};
use crate::tracee::process::{Architecture, check_is_program};
use crate::tracee::signals::Disposition;
use crate::tracee::status::Status;
use crate::tracee::traced::Tracer;
use crate::tracee::{Maps, Modules, TargetError, memory, threads};

/// The signals that a gate can send, as nobody minds them: ignored by default.
const GATE_SIGNALS: [Signal; 2] = [Signal::SIGURG, Signal::SIGWINCH];

/// Looks at a running process.
pub(super) fn checks(pid: Pid, debug_dirs: &Arc<DebugDirs>) -> Vec<Check> {
    match look(pid, debug_dirs) {
        Ok(checks) => checks,
        Err(error) => {
            let mend = match error {
                TargetError::Vanished(_)
                | TargetError::Zombie(_)
                | TargetError::KernelThread(_) => "find its id with `ps -e`, or `pgrep -a NAME`",
                _ => "run gwp-race as root (sudo)",
            };
            vec![Check::fail("process", error.to_string(), mend)]
        }
    }
}

fn look(pid: Pid, debug_dirs: &Arc<DebugDirs>) -> Result<Vec<Check>, TargetError> {
    check_is_program(pid)?;
    let status = Status::of_process(pid)?;
    let tids = threads::list(pid)?;
    let mut checks = vec![state(pid, &status, tids.len()), tracer(pid)];
    if status.tgid != pid {
        checks.push(Check::fail(
            "process id",
            format!("{pid} is a thread of process {}", status.tgid),
            format!("gwp-race doctor {}", status.tgid),
        ));
        return Ok(checks);
    }
    let architecture = Architecture::of(pid)?;
    checks.push(if architecture.is_x86_64() {
        Check::ok("architecture", "64-bit x86")
    } else {
        Check::fail(
            "architecture",
            "not 64-bit x86",
            "build the program for x86-64",
        )
    });
    checks.push(access(pid)?);
    if let Ok(tid) = u32::try_from(pid.as_raw())
        && let Ok(free) = probe::free_breakpoints(tid)
    {
        checks.push(free_breakpoints(free, "the process"));
    }
    checks.extend(signals(pid, &status, &tids));
    checks.push(files_for(tids.len()));
    checks.extend(modules(pid, debug_dirs)?);
    Ok(checks)
}

fn state(pid: Pid, status: &Status, threads: usize) -> Check {
    let name = "process";
    let found = format!("{} ({pid}), {}", status.name, plural(threads, "thread"));
    match status.state {
        'T' => Check::warn(
            name,
            format!("{found}, stopped"),
            format!("kill -CONT {pid}"),
        ),
        _ => Check::ok(name, found),
    }
}

fn tracer(pid: Pid) -> Check {
    let name = "traced by";
    let Some(tracer) = Tracer::of(pid) else {
        return Check::ok(name, "nobody");
    };
    let Tracer {
        process,
        name: comm,
        gwp_race,
    } = tracer;
    match gwp_race {
        Some(other) => Check::fail(
            name,
            format!("another gwp-race ({other}); a process has one tracer at most"),
            format!("end that gwp-race: kill {other}"),
        ),
        None => Check::fail(
            name,
            format!("{comm} ({process}); a process has one tracer at most"),
            format!("end that debugger or strace: kill {process}"),
        ),
    }
}

/// Reading its memory needs the very permission that tracing it does
/// (`PTRACE_MODE_ATTACH_REALCREDS`, ptrace(2)).
fn access(pid: Pid) -> Result<Check, TargetError> {
    let name = "access";
    let denied =
        |error: TargetError| Check::fail(name, error.to_string(), "run gwp-race as root (sudo)");
    let maps = match Maps::read(pid) {
        Ok(maps) => maps,
        Err(error @ TargetError::Vanished(_)) => return Err(error),
        Err(error) => return Ok(denied(error)),
    };
    let Some(code) = maps
        .iter()
        .find(|mapping| mapping.perms.exec && mapping.is_file())
    else {
        return Ok(Check::ok(name, "its memory map can be read"));
    };
    let mut byte = [0];
    Ok(match memory::read(pid, code.start, &mut byte) {
        Ok(_) => Check::ok(name, "its memory can be read"),
        Err(error) if error.is_vanished() => return Err(error),
        Err(error) => denied(error),
    })
}

/// How its threads would be stopped: what it does with SIGTRAP, and with the signals that a
/// gate can send instead.
fn signals(pid: Pid, status: &Status, tids: &[Pid]) -> Vec<Check> {
    let name = "signals";
    let trap = status.disposition(Signal::SIGTRAP);
    let free: Vec<Signal> = GATE_SIGNALS
        .into_iter()
        .filter(|&signal| status.disposition(signal) != Disposition::Caught)
        .collect();
    let found = format!("SIGTRAP is {}: ", describe(trap));
    if trap == Disposition::Ignored && gates_suppress_sigtrap() {
        return vec![Check::ok(name, format!("{found}threads stop by it"))];
    }
    let Some(&signal) = free.first() else {
        return vec![Check::fail(
            name,
            format!(
                "{found}and SIGURG and SIGWINCH are handled, so no signal is free to stop threads"
            ),
            "start the program with `gwp-race run`",
        )];
    };
    let mut checks = vec![Check::ok(name, format!("{found}threads stop by {signal}"))];
    let blocking = tids
        .iter()
        .filter_map(|&tid| Status::of_thread(pid, tid).ok())
        .filter(|thread| free.iter().all(|&signal| thread.blocked.contains(signal)))
        .count();
    let name = "blocked signals";
    let mend = "start the program with `gwp-race run`";
    if blocking > 0 && blocking == tids.len() {
        let found = format!(
            "all of {} block {signal}: nobody can be stopped, so no race is found",
            plural(blocking, "thread")
        );
        checks.push(Check::fail(name, found, mend));
    } else if blocking > 0 {
        let found = format!(
            "{blocking} of {} block {signal}: they are watched, but never stopped first",
            plural(tids.len(), "thread")
        );
        checks.push(Check::warn(name, found, mend));
    }
    checks
}

fn describe(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::Default => "not handled",
        Disposition::Ignored => "ignored",
        Disposition::Caught => "handled by the program",
    }
}

fn files_for(threads: usize) -> Check {
    let name = "open files needed";
    let limit = most_files().unwrap_or(0);
    let found = format!("3 for each of {}", plural(threads, "thread"));
    if threads_for(limit) >= threads {
        Check::ok(name, found)
    } else {
        Check::fail(
            name,
            format!("{found}, {limit} allowed"),
            "ulimit -n 65536, or run as root",
        )
    }
}

/// Which of its modules carry metadata.
fn modules(pid: Pid, debug_dirs: &Arc<DebugDirs>) -> Result<Vec<Check>, TargetError> {
    let name = "metadata";
    let modules = Modules::scan(pid)?;
    let mut usable = Vec::new();
    let mut damaged = Vec::new();
    let mut lines = true;
    for module in modules.all() {
        match Carried::of(&module.image) {
            Ok(carried) if carried.analyzed > 0 => {
                let short = module.path.file_name().unwrap_or(module.path.as_os_str());
                usable.push(format!(
                    "{} ({}, {}% of its code)",
                    short.to_string_lossy(),
                    plural(carried.analyzed, "function"),
                    carried.percent
                ));
                let info = ModuleInfo {
                    path: module.path.to_string_lossy().into_owned(),
                    via: module.via.clone(),
                    ..ModuleInfo::default()
                };
                lines &= has_lines(&module.image, &info, debug_dirs);
            }
            Ok(_) => {}
            Err(error) => damaged.push(error),
        }
    }
    let total = plural(modules.all().len(), "module");
    let mut checks = Vec::new();
    if usable.is_empty() {
        checks.push(Check::fail(
            name,
            format!("none in its {total}: nothing would be watched"),
            metadata::BUILD,
        ));
    } else {
        checks.push(Check::ok(
            name,
            format!("in {} of {total}: {}", usable.len(), usable.join(", ")),
        ));
        checks.push(lines_check(lines));
    }
    for error in damaged {
        checks.push(Check::warn(name, error, metadata::BUILD));
    }
    for unreadable in modules.unreadable() {
        checks.push(Check::warn(
            "module",
            unreadable.reason.to_string(),
            "run gwp-race as root (sudo); code that is in no ELF file cannot be watched",
        ));
    }
    Ok(checks)
}

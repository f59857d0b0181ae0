//! `gwp-race run`: starts a program and watches it from its first instruction on.

use std::{
    ffi::OsStr,
    io::{Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{net::UnixStream, process::CommandExt as _, process::ExitStatusExt as _},
    },
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
};
use tracing::{debug, warn};

use super::rights;
use super::{
    args::{LaunchArgs, RunArgs},
    passed_on::PassedOn,
    session::{Happening, Session},
};
use crate::kernel::{
    descriptors::{close_at_exec, closed_at_start},
    process::{adopt, ignore_sigtrap, let_parent_trace},
};

/// gwp-race itself failed.
pub(super) const FAILED: u8 = 125;
/// The program cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
const NOT_FOUND: u8 = 127;
/// The code of `--halt-on-race` where no other is given: ThreadSanitizer's.
const HALTED: u8 = 66;
/// After this the program that is to be halted is killed.
const HALT_TIME: Duration = Duration::from_secs(5);

/// Starts and watches a program.
///
/// # Errors
/// Fails when it cannot be started or held, or a report cannot be written.
pub async fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let mut session = Session::new(&args.watch, 0)?;
    if let Some(lost) = args
        .command
        .first()
        .and_then(|program| rights::lost_by(program))
    {
        warn!("{lost}");
    }
    let (mut gate, mut child) = start_launcher(args)?;
    let pid = child.id().context("the launcher has ended at once")?;
    session.set_first(pid);
    session.watch(pid, true)?;
    match session.next().await {
        Happening::Seized => {}
        Happening::Failed(text) => {
            let _ = child.kill().await;
            anyhow::bail!(text);
        }
        _ => {
            let _ = child.kill().await;
            anyhow::bail!("the tracer ended before it held the program; try again with -v");
        }
    }
    // Not before the launcher is there, which inherits what is ignored, and not after the program:
    // a signal that ended gwp-race between the two would leave the program to itself.
    let signals = PassedOn::new()?;
    gate.write_all(&[1]).context("the launcher has ended")?;
    if let Some(error) = exec_error(gate).await? {
        let _ = child.wait().await;
        let program = args.command.first().map_or(OsStr::new(""), |name| name);
        let found = error.kind() != std::io::ErrorKind::NotFound;
        let mend = if found {
            "make it an executable of this machine"
        } else {
            "check its name"
        };
        tracing::error!("cannot start {}: {error}; {mend}", program.display());
        return Ok(ExitCode::from(if found {
            NOT_EXECUTABLE
        } else {
            NOT_FOUND
        }));
    }

    let (status, halted) = attend(args, &mut session, &mut child, signals).await?;
    session.stop().await;
    let tally = session.finish()?;
    if tally.unique > 0
        && let Some(code) = args.watch.error_exitcode
    {
        return Ok(ExitCode::from(code));
    }
    if halted {
        return Ok(ExitCode::from(HALTED));
    }
    Ok(exit_code(status))
}

/// Watches until the program ends, passing signals on.
async fn attend(
    args: &RunArgs,
    session: &mut Session,
    child: &mut Child,
    mut signals: PassedOn,
) -> anyhow::Result<(ExitStatus, bool)> {
    let pid = Pid::from_raw(child.id().unwrap_or(0).cast_signed());
    let duration = args.watch.duration;
    let over = async {
        match duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    let mut watching = true;
    let mut halted = false;
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status?, halted)),
            signal = signals.next() => pass_on(pid, signal),
            () = &mut over, if watching => {
                watching = false;
                session.stop().await;
            }
            happening = session.next(), if watching => match happening {
                Happening::Race(unique) => {
                    if args.watch.halt_on_race && !halted {
                        halted = true;
                        watching = false;
                        session.stop().await;
                        pass_on(pid, Signal::SIGTERM);
                        tokio::spawn(async move {
                            tokio::time::sleep(HALT_TIME).await;
                            pass_on(pid, Signal::SIGKILL);
                        });
                    } else if args.watch.max_races.is_some_and(|most| unique >= most) {
                        watching = false;
                        session.stop().await;
                    }
                }
                Happening::Failed(text) => {
                    watching = false;
                    warn!("the program runs on without being watched: {text}");
                    // Which also takes note of how its tracer has ended: nothing of it is to be left.
                    session.stop().await;
                }
                Happening::AllEnded => watching = false,
                Happening::Seized => {}
            },
        }
    }
}

fn pass_on(pid: Pid, signal: Signal) {
    // It may have ended this moment.
    if let Err(error) = kill(pid, signal) {
        debug!("{signal} could not be passed on: {error}");
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(FAILED),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(FAILED))
}

/// Starts the process that becomes the program once it is told so through the socket.
fn start_launcher(args: &RunArgs) -> anyhow::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
    // Only the launcher is started between these two lines, so only it inherits the descriptor.
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let child = Command::new("/proc/self/exe")
        .arg0("gwp-race")
        .arg("__launch")
        .arg(theirs.as_raw_fd().to_string())
        .arg(closed_at_start().to_string())
        .arg("--")
        .args(&args.command)
        .spawn()
        .context("cannot start a process; raise the limit of processes (ulimit -u)")?;
    Ok((ours, child))
}

/// The end of the socket tells that the exec has succeeded; before it comes the error.
async fn exec_error(gate: UnixStream) -> std::io::Result<Option<std::io::Error>> {
    gate.set_nonblocking(true)?;
    let mut gate = tokio::net::UnixStream::from_std(gate)?;
    let mut code = [0; 4];
    let error = gate.read_exact(&mut code).await.ok();
    Ok(error.map(|_| std::io::Error::from_raw_os_error(i32::from_le_bytes(code))))
}

/// The launcher's body.
///
/// # Errors
/// Fails when the daemon is gone or the program cannot be executed.
pub fn launch(args: &LaunchArgs) -> anyhow::Result<ExitCode> {
    let socket = adopt(args.fd).context("__launch is for gwp-race's own use")?;
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let mut socket = UnixStream::from(socket);
    let mut go = [0];
    socket
        .read_exact(&mut go)
        .context("gwp-race has ended before the program was started")?;
    ignore_sigtrap();
    close_at_exec(args.closed)?;
    let_parent_trace();
    let (program, arguments) = args.command.split_first().context("no program is given")?;
    let error = std::process::Command::new(program).args(arguments).exec();
    let code = error.raw_os_error().unwrap_or(libc::EIO);
    socket.write_all(&code.to_le_bytes())?;
    Ok(ExitCode::from(NOT_FOUND))
}

//! `gwp-race run`: starts a program and watches it from its first instruction on.

use std::{
    ffi::{CString, OsStr},
    io::{Read as _, Write as _},
    net::Shutdown,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixStream, process::ExitStatusExt as _},
    },
    process::{ExitCode, ExitStatus},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::signal::Signal,
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::Instant,
};
use tracing::{debug, warn};

use super::{
    args::{LaunchArgs, RunArgs},
    enough::{Lack, carries_metadata},
    passed_on::PassedOn,
    session::{Happening, Left, Session},
    time_limit::TimeLimit,
};
use super::{not_executable, rights};
use crate::kernel::{
    descriptors::{close_at_exec, closed_at_start},
    limits::explained,
    open_files::{FileLimits, set_files},
    origin::Origin,
    process::{self, adopt, let_be_looked_into, let_parent_trace},
    requests::Witness,
    rights::{are_lent, give_back},
    service,
};
use crate::reader::HeaderReader;

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
/// What the launcher says once it can be seized.
const READY: u8 = b'r';

/// Starts and watches a program, which has these limits of open files. Without a witness it may find signals twice.
///
/// # Errors
/// Fails when it cannot be started or held, or a report cannot be written.
pub async fn run(
    args: &RunArgs,
    files: FileLimits,
    witness: Option<(Witness, OwnedFd)>,
) -> anyhow::Result<ExitCode> {
    let mut session = Session::new(&args.watch, None)?;
    if let Some(lost) = args
        .command
        .first()
        .and_then(|program| rights::lost_by(program))
    {
        warn!("{lost}");
    }
    let (mut gate, mut child) = start_launcher(args, files)?;
    let pid = child.id().context("the launcher has ended at once")?;
    let process = Arc::new(process::end_of(pid)?);
    session.set_first(pid);
    if let Err(error) = session.watch(pid, true) {
        let _ = child.kill().await;
        return Err(error);
    }
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
    let signals = PassedOn::new(witness)?;
    say_go(&mut gate).context("the launcher has ended")?;
    if let Some(error) = exec_error(gate).await? {
        let _ = child.wait().await;
        let program = args.command.first().map_or(OsStr::new(""), |name| name);
        let found = error.kind() != std::io::ErrorKind::NotFound;
        let mend = not_executable::mend(program, &error);
        tracing::error!("cannot start {}: {error}; {mend}", program.display());
        return Ok(ExitCode::from(if found {
            NOT_EXECUTABLE
        } else {
            NOT_FOUND
        }));
    }

    let (status, halted, was_watched_to_its_end) =
        attend(args, &mut session, &mut child, &process, signals).await?;
    session.stop().await;
    let left = session.take_left();
    let was_seen = session.has_watched(pid);
    let closing = session.finish().await;
    if was_watched_to_its_end {
        warn_of(&left);
    }
    let mut seen = closing.seen;
    if let Some(code) = closing.exit_code(args.watch.error_exitcode)? {
        return Ok(ExitCode::from(code));
    }
    if halted {
        return Ok(ExitCode::from(HALTED));
    }
    if Lack::of(&args.watch, seen) == Some(Lack::Metadata) && !was_seen {
        // It has ended before anybody had looked into it.
        let program = args.command.first();
        seen.metadata =
            program.is_some_and(|program| carries_metadata(program, HeaderReader::default()));
    }
    if let Some(lack) = Lack::of(&args.watch, seen) {
        tracing::error!("{lack}");
        // What a program itself says that has failed says more.
        if status.success() {
            return Ok(ExitCode::from(lack.exit_code()));
        }
    }
    if let Some(signal) = status.signal().filter(|_| service::is_main_process()) {
        // For systemd an end by SIGTERM is a good one, and a code of 143 is a failure.
        service::end_by(signal);
    }
    Ok(exit_code(status))
}

/// Tells of processes that the program has started and that run on: of a daemon it is the first process that ends.
fn warn_of(left: &[Left]) {
    let mut living = left.iter().filter(|process| process.lives());
    let Some(Left { pid, name }) = living.next() else {
        return;
    };
    let others = match living.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    warn!(
        "the program has ended, but what it has started runs on and is not watched any more: {name} (process {pid}){others}; \
         use its option to stay in the foreground, or gwp-race attach {pid}"
    );
}

/// Watches until the program ends, passing signals on to its `process`. Tells how it has ended, whether that was by
/// `--halt-on-race`, and whether it was watched until then.
async fn attend(
    args: &RunArgs,
    session: &mut Session,
    child: &mut Child,
    process: &Arc<OwnedFd>,
    mut signals: PassedOn,
) -> anyhow::Result<(ExitStatus, bool, bool)> {
    let mut limit = TimeLimit::new(args.watch.duration, Instant::now());
    let mut watching = true;
    let mut halted = false;
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status?, halted, watching)),
            signal = signals.next() => pass_on(process.as_fd(), signal),
            () = limit.is_over(), if watching => {
                watching = false;
                session.stop().await;
            }
            happening = session.next(), if watching => match happening {
                Happening::Race(unique) => {
                    if args.watch.halt_on_race && !halted {
                        halted = true;
                        watching = false;
                        session.stop().await;
                        pass_on(process.as_fd(), Signal::SIGTERM);
                        let process = Arc::clone(process);
                        tokio::spawn(async move {
                            tokio::time::sleep(HALT_TIME).await;
                            pass_on(process.as_fd(), Signal::SIGKILL);
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
                Happening::Watching => limit.begin(Instant::now()),
                Happening::Seized => {}
            },
        }
    }
}

fn pass_on(process: BorrowedFd<'_>, signal: Signal) {
    // It may have ended this moment.
    if let Err(error) = process::signal(process, signal as i32) {
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

/// Starts the process that becomes the program once it is told so through the socket. `files`: the limits
/// of open files that the program is to have.
fn start_launcher(args: &RunArgs, files: FileLimits) -> anyhow::Result<(UnixStream, Child)> {
    let (mut ours, theirs) = UnixStream::pair()
        .map_err(|error| anyhow!("cannot make a socket pair: {}", explained(&error)))?;
    // Only the launcher is started between these two lines, so only it inherits the descriptor.
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let child = Command::new("/proc/self/exe")
        .arg0("gwp-race")
        .arg("__launch")
        .arg(theirs.as_raw_fd().to_string())
        .arg(closed_at_start().to_string())
        .args([files.0.to_string(), files.1.to_string()])
        .arg("--")
        .args(&args.command)
        .spawn()
        .map_err(|error| anyhow!("cannot start a process: {}", explained(&error)))?;
    // Its end of the socket is its own from here on: should it die, there is nothing to wait for.
    drop(theirs);
    let mut ready = [0];
    ours.read_exact(&mut ready)
        .context("the launcher has ended; try again with -v")?;
    Ok((ours, child))
}

/// Lets the launcher execute the program, which is to find what this process has found.
fn say_go(gate: &mut UnixStream) -> anyhow::Result<()> {
    let origin = postcard::to_allocvec(&Origin::of_this_process())?;
    gate.write_all(&origin)?;
    gate.shutdown(Shutdown::Write)?;
    Ok(())
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
    give_back()?;
    if are_lent() {
        // It has fewer now than it was begun with, and those it had nobody was to see.
        let_be_looked_into();
    }
    let_parent_trace();
    socket.write_all(&[READY])?;
    let mut go = Vec::new();
    socket.read_to_end(&mut go)?;
    let origin: Origin = postcard::from_bytes(&go)
        .map_err(|_| anyhow!("gwp-race has ended before the program was started"))?;
    close_at_exec(args.closed)?;
    set_files((args.files, args.most_files));
    let words = args.command.iter();
    let words = words.map(|word| CString::new(word.as_bytes()));
    let command = words.collect::<Result<Vec<_>, _>>()?;
    let error = origin.execute(&command);
    socket.write_all(&(error as i32).to_le_bytes())?;
    Ok(ExitCode::from(NOT_FOUND))
}

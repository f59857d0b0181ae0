//! `gwp-race attach`: watches a running process and leaves it running.

use std::process::ExitCode;

use nix::unistd::Pid;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::{
    args::AttachArgs,
    enough::Lack,
    messages::tell,
    session::{Happening, Session},
    status::are_reports_read,
    time_limit::TimeLimit,
    wanted::{caution, namespace},
};
use crate::kernel::terminal::is_controlled;
use crate::tracee::{process::executed, threads};

/// What is about to be watched.
fn attaching(pid: u32) -> String {
    let id = Pid::from_raw(pid.cast_signed());
    let name = threads::name(id, id).unwrap_or_default();
    match executed(id) {
        Ok(program) => format!("attaching to process {pid} ({name}, {})", program.display()),
        Err(_) => format!("attaching to process {pid} ({name})"),
    }
}

/// Watches a running process until it ends, the time is over, or a signal says so.
///
/// # Errors
/// Fails when the process cannot be held or a report not be written.
pub async fn run(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let found = args.process.find()?;
    let pid = found.pid;
    let mut session = Session::new(&args.watch, Some(pid))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut figures = signal(SignalKind::user_defined1())?;
    let had_terminal = is_controlled();
    if !args.watch.quiet && !are_reports_read(&args.watch) {
        tell(&attaching(pid));
    }
    if let Some(text) = caution(pid, namespace(pid).as_deref()) {
        tracing::warn!("{text}");
    }
    found.check_lives()?;
    session.watch(pid, false)?;
    let mut limit = TimeLimit::new(args.watch.duration, Instant::now());
    let mut is_over = false;
    loop {
        tokio::select! {
            () = limit.is_over() => {
                is_over = true;
                break;
            }
            _ = terminate.recv() => break,
            // A terminal that has hung up is gone by now; else somebody has moved the report away.
            _ = hangup.recv() => {
                if !session.can_reopen() || is_controlled() != had_terminal {
                    break;
                }
                session.reopen();
            }
            _ = figures.recv() => session.tell_figures(),
            _ = interrupt.recv() => break,
            happening = session.next() => match happening {
                Happening::Race(unique) => {
                    let most = args.watch.max_races.unwrap_or(u64::MAX);
                    if args.watch.halt_on_race || unique >= most {
                        break;
                    }
                }
                Happening::Failed(text) => anyhow::bail!(text),
                Happening::AllEnded if session.has_watched(pid) => break,
                Happening::AllEnded => {
                    anyhow::bail!("process {pid} has ended before it could be watched; list what runs with `ps -e`")
                }
                Happening::Watching => limit.begin(Instant::now()),
                Happening::Seized => {}
            },
        }
    }
    session.stop().await;
    if is_over && !session.has_watched(pid) {
        anyhow::bail!(
            "process {pid} could not be watched in time: the machine may be overloaded (see `uptime`); try again, with -v, or give it a longer --duration"
        );
    }
    let closing = session.finish().await;
    let seen = closing.seen;
    let mut code = closing.exit_code(args.watch.error_exitcode)?;
    if code.is_none()
        && let Some(lack) = Lack::of(&args.watch, seen)
    {
        tracing::error!("{lack}");
        code = Some(lack.exit_code());
    }
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

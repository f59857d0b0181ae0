//! `gwp-race attach`: watches a running process and leaves it running.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use super::{
    args::AttachArgs,
    session::{Happening, Session},
};

/// Watches a running process until it ends, the time is over, or a signal says so.
///
/// # Errors
/// Fails when the process cannot be held or a report not be written.
pub async fn run(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let mut session = Session::new(&args.watch, args.pid)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    session.watch(args.pid, false)?;
    let duration = args.watch.duration;
    let over = async {
        match duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => break,
            _ = terminate.recv() => break,
            _ = hangup.recv() => break,
            _ = interrupt.recv() => break,
            happening = session.next() => match happening {
                Happening::Race(unique) => {
                    let most = args.watch.max_races.unwrap_or(u64::MAX);
                    if args.watch.halt_on_race || unique >= most {
                        break;
                    }
                }
                Happening::Failed(text) => anyhow::bail!(text),
                Happening::AllEnded => break,
                Happening::Seized => {}
            },
        }
    }
    session.stop().await;
    let tally = session.finish()?;
    Ok(match args.watch.error_exitcode {
        Some(code) if tally.unique > 0 => ExitCode::from(code),
        _ => ExitCode::SUCCESS,
    })
}

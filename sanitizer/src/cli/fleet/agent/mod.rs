//! `gwp-race fleet agent`: a process without rights that takes what the daemon, which has no network, has found, keeps it in an [outbox](crate::outbox), and sends it to a collector.

mod desk;
mod page;
mod prepare;
mod status;
mod takers;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, sync::Arc};

use anyhow::Context as _;
use tokio::{net::UnixListener, sync::watch, task::JoinSet};

use super::{
    config::{Config, USUAL_PLACE},
    signals::Signals,
    socket::{OwnSocket, Who, make_folder, serve_each},
};
use crate::{
    cli::{
        args::{AgentArgs, AgentCommand},
        messages::tell,
    },
    kernel::service,
    outbox::{LetGo, Outbox, Shared},
};
use desk::Desk;
use takers::Takers;

const WHO: Who = Who {
    command: "gwp-race fleet agent",
    mend: "ask it with `gwp-race fleet agent status`",
    named: "[export], or with --socket",
    // A daemon that is root and may not pass over the modes of files comes by the group, where the agent has root's.
    mode: 0o660,
};

/// Carries out the command.
///
/// # Errors
/// The configuration is wrong, another agent runs, or the outbox cannot be used; or no agent answers.
pub async fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(AgentCommand::Status(args)) => status::run(args),
        Some(AgentCommand::Prepare(args)) => prepare::run(args),
        None => serve(args).await,
    }
}

async fn serve(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    let config = Config::read(args.config.config.as_deref())?;
    let takers = Takers::new(&config.agent, config.learn.share)
        .with_context(|| format!("the agent, by {}, cannot send anything", named(&config)))?;
    let path = &config.agent.outbox;
    make_folder(path).with_context(|| {
        format!(
            "cannot make the folder of {}; name another outbox in [agent]",
            path.display()
        )
    })?;
    let mut signals = Signals::new()?;
    // Whoever has the socket has the outbox as well: nothing of another agent's is let go.
    let (listener, _socket) = listener(args, &config)?;
    let mut outbox = Outbox::open(path, config.settings.spool)?.for_whom(takers.wants());
    tell_let_go(outbox.let_go()?);
    let (collector, otlp) = takers.names();
    let (collector, otlp) = (collector.as_deref(), otlp.as_deref());
    let both: Vec<_> = collector.into_iter().chain(otlp).collect();
    let shared = Arc::new(Shared::new(outbox).for_whom(collector, otlp));
    let page = page::bind(config.agent.metrics, &shared).await?;
    tell(&format!(
        "what is found on this machine is sent to {}, and kept in {} until that has it",
        both.join(" and "),
        path.display()
    ));
    let (stop, stopped) = watch::channel(false);
    let mut pages = JoinSet::new();
    if let Some(page) = page {
        tell(&format!("figures are told at {}/metrics", page.url()?));
        pages.spawn(page.serve(stopped));
    }
    let hinting = takers.hinting();
    let mut threads = takers.start(&shared)?;
    let desk = Arc::new(Desk::new(Arc::clone(&shared), hinting.clone()));
    let serving = serve_each(listener, |stream| Arc::clone(&desk).serve(stream));
    tokio::select! {
        () = signals.next() => {}
        () = serving => anyhow::bail!("nobody can come to the agent any more: restart it"),
        _ = threads.join_next() => anyhow::bail!("a thread that sends has failed: restart the agent, and tell its authors what it has said"),
    }
    // What is being sent is sent again by the next agent.
    shared.end();
    if let Some(hinting) = hinting {
        hinting.end();
    }
    stop.send_replace(true);
    while pages.join_next().await.is_some() {}
    Ok(ExitCode::SUCCESS)
}

/// Tells what was kept for somebody who is named no more.
fn tell_let_go(gone: LetGo) {
    let LetGo {
        items,
        messages,
        events,
    } = gone;
    if items + messages > 0 {
        tracing::warn!(
            "[agent] names no collector any more: what waited for it is let go, {messages} messages and {items} items, and is counted as lost"
        );
    }
    if events > 0 {
        tracing::warn!(
            "there is no [agent.otlp] any more: {events} events that waited for it are let go, and counted as lost"
        );
    }
}

fn named(config: &Config) -> String {
    let path = config.path.as_ref();
    path.map_or_else(|| USUAL_PLACE.to_owned(), |path| path.display().to_string())
}

/// The socket that a service manager has passed, or one of its own.
fn listener(
    args: &AgentArgs,
    config: &Config,
) -> anyhow::Result<(UnixListener, Option<OwnSocket>)> {
    let passed = service::listener().context("cannot listen")?;
    if let Some(passed) = passed {
        passed.set_nonblocking(true)?;
        return Ok((UnixListener::from_std(passed)?, None));
    }
    let path = args.socket.as_ref().or(config.places.agent.as_ref());
    let path = path.with_context(|| {
        format!(
            "no socket is named: write agent = \"/run/gwp-race/agent.sock\" into [export] of {}, so that the daemon finds it as well, or use --socket",
            named(config)
        )
    })?;
    let (listener, socket) = OwnSocket::make(path, WHO)?;
    Ok((listener, Some(socket)))
}

//! `gwp-race races serve`.

mod ui;

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::StoreArgs;
use crate::cli::{
    messages::{log_to_stderr, tell},
    runtime,
};
use ui::UiArgs;

/// Connections at a time; more wait.
const CONNECTIONS: usize = 128;
/// How long a request may take to come.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long a connection is kept.
const CONNECTION_TIME: Duration = Duration::from_mins(5);
/// The largest head of a request, bytes.
const HEAD: usize = 16 << 10;
/// How long it is before another connection is taken where there is no descriptor or no memory for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Serve pages about a store to browsers
///
/// The list of races, with filters, each race with its builds, hosts, days and records, and the races of two builds compared. Pages are made here: without scripts, and without anything from elsewhere. They only show what is there; `races triage` says what is to be thought of it.
///
/// Whoever may connect may read: so they are served on the machine itself alone, unless --ui-insecure is given. It goes on until it gets SIGINT or SIGTERM.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races serve --store sqlite:races.db
  gwp-race races serve --store sqlite:races.db --ui 127.0.0.1:8080
  ssh -L 7173:127.0.0.1:7173 server    # the pages of another machine, at http://127.0.0.1:7173/")]
pub struct ServeArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub ui: UiArgs,
}

pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, 0);
    let router = args.ui.pages(&args.store.store)?;
    runtime()?.block_on(until_told(args.ui.ui, router))?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal says that it is enough.
async fn until_told(address: SocketAddr, router: Router) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| {
        format!(
            "cannot listen on {address}; name another port by --ui (`ss -ltnp` tells whose this is)"
        )
    })?;
    tell(&format!("pages at http://{}/", listener.local_addr()?));
    tokio::select! {
        () = serve(&listener, &router) => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    Ok(())
}

/// Takes connections, each with a task of its own.
async fn serve(listener: &TcpListener, router: &Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    // It is of no concern why a browser has gone.
                    let _ = timeout(CONNECTION_TIME, connection(stream, router)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("no connection is taken: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router) -> hyper::Result<()> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await
}

//! `gwp-race races serve`.

mod collector;
mod keep_up;
mod secret;
#[cfg(test)]
mod tests;
mod tls;
mod ui;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::cli::{
    listener::Listener,
    messages::{log_to_stderr, tell},
    runtime,
};
use crate::delivery::Counters;
use crate::store::Address;
use collector::{IngestArgs, ended};
use keep_up::{PERIOD, keep_up};
use ui::UiArgs;

/// Take races of other machines, and show a store to browsers
///
/// With --ingest, machines send what their gwp-race finds; it is answered once it is in the store, and counts once, however often it is sent. What cannot be taken now is to be sent again later: when more messages wait than may, or the store cannot be written to. `GET /healthz` says there whether the
/// store can be written to, `GET /metrics` has figures for Prometheus, and `GET /v1/hints/NAME/BUILD` tells machines that share what they learn what all of them have learned of a build. Five minutes after the start, and once a day, days that are older than --keep-days become sums, for good; `--keep-days 1000y` keeps all.
///
/// With --ui, browsers are shown pages: the list of races, with filters, each race with its builds, hosts, days and records, and the races of two builds compared. Pages are made here, without scripts, and without anything from elsewhere.
///
/// Whoever may send can put anything into the store, and whoever sees the pages can read it. So beyond this machine, a secret is wanted: of who sends, a token (--token-file) or a certificate (--client-ca), or both; of who reads, a name and a password (--ui-users). It ends by Ctrl-C and SIGTERM, when it has answered what
/// came before; SIGUSR1 has it tell its figures.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races serve --store sqlite:races.db --ui
  ssh -L 7173:127.0.0.1:7173 server    # the pages of another machine, at http://127.0.0.1:7173/
  gwp-race races serve --store sqlite:races.db --ingest 127.0.0.1:7174
  gwp-race races serve --store postgres://races@db/races --ingest 0.0.0.0:7174 --ui 0.0.0.0:7173 \\
      --tls-cert collector.pem --tls-key collector.key --token-file tokens --ui-users users")]
pub struct ServeArgs {
    /// The store: sqlite:PATH, postgres://HOST/DATABASE
    ///
    /// With --ingest, it is made if it is not there.
    #[arg(long, value_name = "STORE")]
    pub store: Address,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub ingest: IngestArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub ui: UiArgs,

    /// The certificate of this server, in PEM
    ///
    /// With those that lead from it to its authority, behind it. When it is renewed, start the server anew.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Talk plain text with other machines
    ///
    /// Whoever is on the way can read it, and take the token or password. For where something else in front of the server does TLS.
    #[arg(long)]
    pub insecure: bool,

    /// Tell each message (-v)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "give an address and a port, such as 127.0.0.1:7174 or [::1]:7174".to_owned())
}

impl ServeArgs {
    /// Whether it is safe to listen so.
    fn check(&self) -> anyhow::Result<()> {
        let addresses = [self.ingest.ingest, self.ui.ui];
        anyhow::ensure!(
            addresses.iter().any(Option::is_some),
            "nothing is to be served; give --ui to show pages, --ingest 127.0.0.1:7174 to take the races of other machines, or both"
        );
        self.ingest.check()?;
        self.ui.check()?;
        for address in addresses.into_iter().flatten() {
            anyhow::ensure!(
                address.ip().is_loopback() || self.tls_cert.is_some() || self.insecure,
                "whoever is on the way to {address} could read and change what is sent; give --tls-cert and --tls-key, or --insecure where something in front of it does TLS"
            );
        }
        Ok(())
    }

    /// What does TLS, where it is done; who connects must have a certificate of one of these authorities, where there are any.
    fn tls(&self, clients: Option<&Path>) -> anyhow::Result<Option<TlsAcceptor>> {
        let files = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let tls = files.map(|(cert, key)| tls::acceptor(cert, key, clients));
        tls.transpose()
    }
}

pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, args.verbose);
    args.check()?;
    let runtime = runtime()?;
    let ended = runtime.block_on(serve(args));
    // What is still read for a page is read for nobody.
    runtime.shutdown_background();
    ended
}

async fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut figures = signal(SignalKind::user_defined1())?;
    let counters = Arc::new(Counters::default());
    let mut open: Vec<(Listener, String)> = Vec::new();
    let mut writing = None;
    if let Some(address) = args.ingest.ingest {
        let tls = args.tls(args.ingest.client_ca.as_deref())?;
        let (router, started) = args.ingest.open(&args.store, &counters)?;
        writing = Some(started);
        let listener = Listener::bind(address, tls, router).await?;
        let url = listener.url()?;
        let kept = format!("what is sent to {url} is kept in {}", args.store);
        open.push((listener, kept));
    }
    if let Some(address) = args.ui.ui {
        let router = args.ui.pages(&args.store)?;
        let listener = Listener::bind(address, args.tls(None)?, router).await?;
        let shown = format!("pages are shown at {}/", listener.url()?);
        open.push((listener, shown));
    }
    let (stop, stopped) = watch::channel(false);
    let mut listeners = JoinSet::new();
    for (listener, said) in open {
        listeners.spawn(listener.serve(stopped.clone()));
        tell(&format!("{said}; Ctrl-C ends it"));
    }
    let keeping = tokio::spawn(keep_up(args.store.clone(), PERIOD, args.ingest.keeps()));
    let has_died = loop {
        select! {
            _ = terminate.recv() => break false,
            _ = interrupt.recv() => break false,
            _ = figures.recv() => tell(&counters.line()),
            () = ended(writing.as_ref()) => break true,
        }
    };
    keeping.abort();
    stop.send_replace(true);
    while listeners.join_next().await.is_some() {}
    if let Some(writing) = writing {
        writing.end();
        tell(&counters.line());
    }
    anyhow::ensure!(
        !has_died,
        "what writes to the store has ended; start the collector again"
    );
    Ok(ExitCode::SUCCESS)
}

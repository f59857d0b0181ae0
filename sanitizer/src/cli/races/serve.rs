//! `gwp-race races serve`.

mod secret;
#[cfg(test)]
mod tests;
mod tls;

use std::{
    net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, thread::JoinHandle,
    time::Duration,
};

use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};

use crate::cli::{
    listener::Listener,
    messages::{log_to_stderr, tell},
    runtime,
    size::parse_size,
};
use crate::delivery::{Counters, Intake, Tokens, Writer, router};
use crate::store::{Access, Address, Store};

/// How long somebody who has locked the store is waited for: meanwhile messages wait, and who sends them.
const PATIENCE: Duration = Duration::from_secs(2);
/// A server that takes longer for a message counts as one that is away: whoever sends is told to try again, and its messages wait with him.
const LIMIT: Duration = Duration::from_secs(20);

/// Take the races of other machines into a store
///
/// Machines send what their gwp-race finds; it is answered once it is in the store, and counts once, however often it is sent. What cannot be taken now is to be sent again later: when more messages wait than may, or the store cannot be written to.
///
/// Whoever may send can put anything into the store. So beyond this machine, a secret is wanted of who sends: a token (--token-file) or a certificate (--client-ca), or both. It ends by Ctrl-C and SIGTERM, when it has answered what came before; SIGUSR1 has it tell its figures.
///
/// `GET /healthz` says whether the store can be written to, `GET /metrics` has figures for Prometheus.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  gwp-race races serve --store sqlite:races.db --ingest 127.0.0.1:7174
  gwp-race races serve --store sqlite:/var/lib/gwp-race/fleet.db --ingest 0.0.0.0:7174 \\
      --tls-cert collector.pem --tls-key collector.key --token-file tokens")]
pub struct ServeArgs {
    /// The store: sqlite:PATH
    ///
    /// It is made if it is not there.
    #[arg(long, value_name = "STORE")]
    pub store: Address,

    /// Take messages at this address (127.0.0.1:7174)
    ///
    /// An address of this machine and a port; 0.0.0.0 and [::] are all addresses.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub ingest: SocketAddr,

    /// The certificate of this collector, in PEM
    ///
    /// With those that lead from it to its authority, behind it. When it is renewed, start the collector anew.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Authorities of senders' certificates, in PEM
    ///
    /// Messages are taken from who has a certificate of one of them. With --token-file, both are wanted.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub client_ca: Option<PathBuf>,

    /// Tokens of senders, one a line
    ///
    /// Messages are taken from who gives one of them as `Authorization: Bearer TOKEN`. A file that everybody may read or change, or another user's than root's, is refused.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Take plain text from other machines
    ///
    /// Whoever is on the way can read it, and take the token. For where something else in front of the collector does TLS.
    #[arg(long)]
    pub insecure: bool,

    /// Most bytes of a message, as sent
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub max_message: u64,

    /// Most bytes of a message, unpacked
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pub max_unpacked: u64,

    /// Most messages that wait for the store
    ///
    /// Others are to be sent again later.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue: u16,

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
        if self.ingest.ip().is_loopback() {
            return Ok(());
        }
        let address = self.ingest;
        anyhow::ensure!(
            self.token_file.is_some() || self.client_ca.is_some(),
            "whoever reaches {address} could put races into the store; give --token-file, or --client-ca, or an address of this machine alone (127.0.0.1)"
        );
        anyhow::ensure!(
            self.tls_cert.is_some() || self.insecure,
            "whoever is on the way to {address} could read and change what is sent; give --tls-cert and --tls-key, or --insecure where something in front of it does TLS"
        );
        Ok(())
    }
}

pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, args.verbose);
    args.check()?;
    runtime()?.block_on(serve(args))
}

/// What takes messages: its listener, its writer, and the thread of that.
struct Taking {
    listener: Listener,
    writer: Writer,
    thread: JoinHandle<()>,
}

/// Opens all that taking messages needs.
async fn open(args: &ServeArgs, counters: &Arc<Counters>) -> anyhow::Result<Taking> {
    let tokens = args.token_file.as_deref().map(|path| {
        let text = secret::read(path)?;
        Tokens::parse(&text).map_err(|wrong| anyhow::anyhow!("{}: {wrong}", path.display()))
    });
    let tokens = tokens.transpose()?;
    let tls = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let tls = tls.map(|(cert, key)| tls::acceptor(cert, key, args.client_ca.as_deref()));
    let tls = tls.transpose()?;
    let mut store = Store::open(&args.store, Access::Create)?;
    store.set_patience(PATIENCE);
    store.set_limit(LIMIT);
    let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    let (writer, thread) = Writer::start(
        store,
        bytes(args.max_unpacked),
        args.queue.into(),
        Arc::clone(counters),
    )?;
    let intake = Intake {
        tokens,
        most: bytes(args.max_message),
        writer: writer.clone(),
        counters: Arc::clone(counters),
    };
    let listener = Listener::bind(args.ingest, tls, router(intake)).await?;
    Ok(Taking {
        listener,
        writer,
        thread,
    })
}

async fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut figures = signal(SignalKind::user_defined1())?;
    let counters = Arc::new(Counters::default());
    let taking = open(args, &counters).await?;
    let url = taking.listener.url()?;
    let (stop, stopped) = watch::channel(false);
    let mut listeners = JoinSet::new();
    listeners.spawn(taking.listener.serve(stopped.clone()));
    tell(&format!(
        "what is sent to {url} is kept in {}; Ctrl-C ends it",
        args.store
    ));
    let has_died = loop {
        select! {
            _ = terminate.recv() => break false,
            _ = interrupt.recv() => break false,
            _ = figures.recv() => tell(&counters.line()),
            () = taking.writer.ended() => break true,
        }
    };
    stop.send_replace(true);
    while listeners.join_next().await.is_some() {}
    drop(taking.writer);
    // It has all that was answered for written already; what is left was not.
    let _ = taking.thread.join();
    tell(&counters.line());
    anyhow::ensure!(
        !has_died,
        "what writes to the store has ended; start the collector again"
    );
    Ok(ExitCode::SUCCESS)
}

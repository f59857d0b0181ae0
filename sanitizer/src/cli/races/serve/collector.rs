//! What `races serve --ingest` is told, and what takes messages.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, thread::JoinHandle, time::Duration};

use axum::Router;

use super::{parse_address, secret};
use crate::cli::{duration::parse_duration, races::parse_days, size::parse_size};
use crate::delivery::{Attempts, Counters, Intake, Tokens, Writer, hints::Hints, router};
use crate::store::{Access, Address, Store};

/// How long somebody who has locked the store is waited for: meanwhile messages wait, and who sends them.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// A server that takes longer for a message counts as one that is away: whoever sends is told to try again, and its messages wait with him.
const LIMIT: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Clone, Debug, clap::Args)]
pub struct IngestArgs {
    /// Take messages at this address (127.0.0.1:7174)
    ///
    /// An address of this machine and a port; 0.0.0.0 and [::] are all addresses.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub ingest: Option<SocketAddr>,

    /// Authorities of senders' certificates, in PEM
    ///
    /// Messages are taken from who has a certificate of one of them. With --token-file, both are wanted.
    #[arg(long, value_name = "FILE", requires_all = ["ingest", "tls_cert"])]
    pub client_ca: Option<PathBuf>,

    /// Tokens of senders, one a line
    ///
    /// Messages are taken from who gives one of them as `Authorization: Bearer TOKEN`. A file that everybody may read or change, or another user's than root's, is refused.
    #[arg(long, value_name = "FILE", requires = "ingest")]
    pub token_file: Option<PathBuf>,

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

    /// How old hints may be
    ///
    /// What hosts are told of a build is looked up anew when it is older; they tell what they have learned each 15 minutes.
    #[arg(long, value_name = "TIME", default_value = "10m", requires = "ingest", value_parser = parse_duration)]
    pub hints_age: Duration,

    /// For how long days are kept
    ///
    /// Once a day, hours of days that ended a week ago become one row. Of each thirty days that are older than this as a whole, it is then only kept how often a race was caught in a build and on a machine, and when first and last: not on which days, nor in which container. Sums stay, and no race is forgotten (`races prune`
    /// does that). It begins five minutes after the start, and old days cannot be had again then. Not less than 60d; 1000y keeps all.
    #[arg(long, value_name = "TIME", default_value = "90d", requires = "ingest", value_parser = parse_days)]
    pub keep_days: Duration,
}

impl IngestArgs {
    /// Whether nobody can send who is not to.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if let Some(address) = self.ingest {
            anyhow::ensure!(
                address.ip().is_loopback() || self.token_file.is_some() || self.client_ca.is_some(),
                "whoever reaches {address} could put races into the store; give --token-file, or --client-ca, or an address of this machine alone (127.0.0.1)"
            );
        }
        Ok(())
    }

    /// For how long days are kept, where it keeps a store.
    pub(super) fn keeps(&self) -> Option<Duration> {
        self.ingest.map(|_| self.keep_days)
    }

    /// What answers to messages, and what writes them to the store.
    pub(super) fn open(
        &self,
        store: &Address,
        counters: &Arc<Counters>,
    ) -> anyhow::Result<(Router, Writing)> {
        let tokens = self.token_file.as_deref().map(|path| {
            let text = secret::read(path)?;
            Tokens::parse(&text).map_err(|wrong| anyhow::anyhow!("{}: {wrong}", path.display()))
        });
        let tokens = tokens.transpose()?;
        let open = || {
            let mut store = Store::open(store, Access::Create)?;
            store.set_patience(PATIENCE);
            store.set_limit(LIMIT);
            anyhow::Ok(store)
        };
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let (writer, thread) = Writer::start(
            open()?,
            bytes(self.max_unpacked),
            self.queue.into(),
            Arc::clone(counters),
        )?;
        let (hints, telling) = Hints::start(open()?, self.hints_age)?;
        let intake = Intake {
            tokens,
            most: bytes(self.max_message),
            writer: writer.clone(),
            hints: Some(hints),
            counters: Arc::clone(counters),
            attempts: Attempts::default(),
        };
        let threads = [thread, telling];
        Ok((router(intake), Writing { writer, threads }))
    }
}

/// What writes messages to the store, its thread, and that which tells hosts what was learned.
pub(super) struct Writing {
    writer: Writer,
    threads: [JoinHandle<()>; 2],
}

impl Writing {
    /// Waits until all that was answered for is written; what is left was not.
    pub(super) fn end(self) {
        drop(self.writer);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Waits until what writes has ended by itself; for ever where there is nothing that writes.
pub(super) async fn ended(writing: Option<&Writing>) {
    match writing {
        Some(writing) => writing.writer.ended().await,
        None => std::future::pending().await,
    }
}

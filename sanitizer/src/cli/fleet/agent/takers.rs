//! Who takes what the agent has, and the threads that send it.

use std::{sync::Arc, thread, time::Duration};

use anyhow::Context as _;
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    cli::{fleet::config::Agent, host::host},
    kernel::limits::explained,
    otlp::Exporter,
    outbox::{Collector, Hinting, Shared, Timing, Wants},
};

/// See the module.
pub(super) struct Takers {
    collector: Option<Arc<Collector>>,
    /// Who asks that one what other machines have learned, where that is wanted.
    hinting: Option<Arc<Hinting>>,
    /// And how often figures are sent.
    otlp: Option<(Arc<Exporter>, Duration)>,
}

impl Takers {
    /// As the configuration names them; whether what is learned is shared with other machines.
    pub(super) fn new(agent: &Agent, shares: bool) -> anyhow::Result<Self> {
        anyhow::ensure!(
            agent.collector.is_some() || agent.otlp.is_some(),
            "no collector is named: write collector = \"https://HOST:PORT\" into [agent], or endpoint = \"https://HOST:4318\" into [agent.otlp]"
        );
        let collector = agent.collector.clone().map(Collector::new);
        let otlp = agent.otlp.clone().map(|otlp| {
            let exporter = Exporter::new(otlp.destination)?;
            anyhow::Ok((Arc::new(exporter), otlp.interval))
        });
        let collector = collector.transpose()?.map(Arc::new);
        let hints = collector.is_some() && shares;
        Ok(Self {
            collector,
            hinting: hints.then(Arc::default),
            otlp: otlp.transpose().context("[agent.otlp]")?,
        })
    }

    /// What they want to be kept for them.
    pub(super) const fn wants(&self) -> Wants {
        Wants {
            messages: self.collector.is_some(),
            events: self.otlp.is_some(),
        }
    }

    /// What messages call them: a collector of gwp-race, and one of OpenTelemetry.
    pub(super) fn names(&self) -> (Option<String>, Option<String>) {
        let otlp = self.otlp.as_ref();
        (
            self.collector.as_ref().map(|taker| taker.name().to_owned()),
            otlp.map(|(exporter, _)| exporter.name().to_owned()),
        )
    }

    /// Who asks what other machines have learned, where somebody does.
    pub(super) fn hinting(&self) -> Option<Arc<Hinting>> {
        self.hinting.clone()
    }

    /// Starts to send; a thread that has ended is one of what is given back.
    pub(super) fn start(self, shared: &Arc<Shared>) -> anyhow::Result<JoinSet<()>> {
        let mut threads = JoinSet::new();
        if let Some(collector) = self.collector {
            if let Some(hinting) = self.hinting {
                let collector = Arc::clone(&collector);
                start(&mut threads, shared, "hints", move |_| {
                    hinting.fetch(&collector);
                })?;
            }
            start(&mut threads, shared, "sender", move |shared| {
                shared.send(&collector, &Timing::default());
            })?;
        }
        if let Some((exporter, interval)) = self.otlp {
            let host = host();
            let events = Arc::clone(&exporter);
            start(&mut threads, shared, "events", move |shared| {
                shared.send_events(&events, &Timing::default());
            })?;
            start(&mut threads, shared, "figures", move |shared| {
                shared.send_metrics(&exporter, &host, interval);
            })?;
        }
        Ok(threads)
    }
}

fn start(
    threads: &mut JoinSet<()>,
    shared: &Arc<Shared>,
    name: &str,
    send: impl FnOnce(&Shared) + Send + 'static,
) -> anyhow::Result<()> {
    let (works, has_ended) = oneshot::channel::<()>();
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            send(&shared);
            drop(works);
        })
        .map_err(|error| anyhow::anyhow!("cannot start a thread: {}", explained(&error)))?;
    threads.spawn(async move {
        // Nothing is ever sent: it ends with the thread.
        let _ = has_ended.await;
    });
    Ok(())
}

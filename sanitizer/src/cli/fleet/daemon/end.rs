//! The end of the daemon: all are let go, what was found is written.

use std::time::{Duration, Instant};

use super::{Daemon, audit, lease::Why, sampler::END_TIME};
use crate::{
    cli::{fleet::signals::Signals, link::Message, totals::summarized},
    report::Summary,
};

/// How long races that were caught may take to be explained.
const LAST_EXPLANATIONS: Duration = Duration::from_secs(60);
/// The same after a further signal.
const GRACE: Duration = Duration::from_millis(500);

impl Daemon {
    /// Lets all go, and writes what is still to be written.
    ///
    /// # Errors
    /// Something could not be.
    pub(super) async fn end(mut self, mut signals: Signals) -> anyhow::Result<()> {
        self.release().await;
        if self.args.agent.is_some() {
            self.reporter.figures(self.figures(None));
        }
        // Whoever asks is told that this is the end.
        drop(self.server);
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let summary = Summary {
            elapsed_s,
            max_overhead_percent: 100.0 * self.config.settings.budget.process,
            ..summarized(&self.sum, self.overhead.as_secs_f64())
        };
        let hurry = async {
            signals.next().await;
            tokio::time::sleep(GRACE).await;
        };
        let reporter = self.reporter.finish(summary, LAST_EXPLANATIONS, hurry);
        let (closing, ()) = tokio::join!(reporter, self.keeper.finish());
        while let Ok(explained) = self.found.try_recv() {
            let is_of = |lease: &&mut super::lease::Lease| {
                lease.who.pid == explained.pid && lease.awaited > 0
            };
            if let Some(lease) = self.over.iter_mut().find(is_of) {
                lease.awaited -= 1;
                let is_new = matches!(explained.fate, crate::cli::reporter::Fate::Reported(_));
                lease.new += u64::from(is_new);
            }
        }
        for lease in &self.over {
            audit::tell_of(lease, self.log);
        }
        match closing.failure {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Ends all leases, and the tracer.
    async fn release(&mut self) {
        let all: Vec<_> = self.leases.iter().map(|lease| lease.process).collect();
        for process in all {
            self.end_lease(process, Why::DaemonEnds);
        }
        self.sampler.stop();
        let deadline = tokio::time::Instant::from_std(Instant::now() + END_TIME);
        while !self.sampler.is_gone() {
            let message = tokio::time::timeout_at(deadline, self.messages.recv()).await;
            match message {
                Ok(Some((link, Message::Notice(notice)))) => self.hear(link, *notice),
                Ok(Some((link, Message::Gone))) => {
                    self.close_of(link, Why::DaemonEnds);
                    self.sampler.has_stopped(link).await;
                }
                // It holds nobody any more when it is killed, and is when nobody has a link to it.
                Ok(None) | Err(_) => {
                    self.sampler.kill();
                    break;
                }
            }
        }
        let held: Vec<_> = self.leases.iter().filter_map(|lease| lease.link).collect();
        for link in held {
            self.close_of(link, Why::DaemonEnds);
        }
    }
}

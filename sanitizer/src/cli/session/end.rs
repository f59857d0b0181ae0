//! The end of a session: who is stopped, and what is said.

use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tracing::{debug, warn};

use crate::cli::descendants::Descendants;
use crate::cli::enough::Seen;
use crate::cli::link::Message;
use crate::cli::reporter::Closing;
use crate::cli::totals::summarized;
use crate::report::Summary;

use super::{Happening, LAST_EXPLANATIONS, STOP_TIME, Session, is_alive};

/// How long reports may still take to be written after a signal that asks for the end.
const GRACE: Duration = Duration::from_millis(500);

/// A process that was started below the first one and lives on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its id.
    pub pid: u32,
    /// What it executes is called so.
    pub name: String,
}

impl Left {
    /// Whether it lives still, as far as can be seen.
    #[must_use]
    pub fn lives(&self) -> bool {
        is_alive(self.pid)
    }
}

impl Session {
    /// Processes with metadata below the first one that lived when [`Session::stop`] was called.
    pub fn take_left(&mut self) -> Vec<Left> {
        std::mem::take(&mut self.left)
    }

    pub(super) fn says_farewell(&mut self, pid: u32) {
        if let Some(process) = self.watched.get_mut(pid) {
            process.said_farewell = true;
        }
    }

    /// The tracer of a process could not go on. One that was watched already is tried again later.
    pub(super) fn on_failure(&mut self, pid: u32, text: String) -> Option<Happening> {
        if pid == self.first && !self.first_was_watched {
            return Some(Happening::Failed(text));
        }
        if self.stopping || !self.has_watched(pid) || !is_alive(pid) {
            debug!("process {pid} is not watched any more: {text}");
            return None;
        }
        warn!("process {pid} is let alone for a while: {text}");
        self.pause(pid);
        None
    }

    /// Whether a process was watched at any time.
    #[must_use]
    pub fn has_watched(&self, pid: u32) -> bool {
        if pid == self.first {
            return self.first_was_watched;
        }
        let process = self.watched.get(pid);
        process.is_some_and(|process| process.was_watched)
    }

    pub(super) fn all_ended(&self) -> Option<Happening> {
        let has_prospects = || {
            let descendants = self.descendants.as_ref();
            descendants.is_some_and(Descendants::has_prospects)
        };
        let ended = self.watched.len() == 0
            && (self.stopping || !self.watched.are_some_paused() && !has_prospects());
        ended.then_some(Happening::AllEnded)
    }

    /// Disarms and releases everything; what the tracers still say is taken in.
    pub async fn stop(&mut self) {
        self.stopping = true;
        self.status.end();
        if let Some(descendants) = &mut self.descendants {
            let left = descendants.finish().into_iter();
            self.left.extend(left.map(|(pid, name)| Left { pid, name }));
        }
        self.stopped.get_or_insert_with(Instant::now);
        for link in self.links.values_mut() {
            link.stop();
        }
        // They hold nobody, and those that are being made would not listen for a while.
        for link in self.spares.all() {
            if let Some(link) = self.links.get_mut(&link) {
                link.kill();
            }
        }
        let deadline = tokio::time::sleep(STOP_TIME);
        tokio::pin!(deadline);
        while !self.links.is_empty() {
            tokio::select! {
                Some((link, message)) = self.messages.recv() => {
                    match message {
                        Message::Notice(notice) => {
                            if let Some(Happening::Failed(text)) = self.on_message(link, *notice) {
                                warn!("{text}");
                            }
                        }
                        Message::Gone => drop(self.on_gone(link).await),
                    }
                }
                () = &mut deadline => {
                    for (id, link) in &mut self.links {
                        if let Some(pid) = self.watched.of(*id) {
                            self.reporter.coverage_is_cut(pid);
                        }
                        link.kill();
                    }
                    self.links.clear();
                }
            }
        }
        for pid in self.watched.beginning() {
            self.has_begun(pid, None);
        }
        if let Some(descendants) = self.descendants.take() {
            self.has_metadata |= descendants.have_metadata();
            self.not_watched = descendants.into_not_watched();
        }
    }

    /// Writes the summary. Call [`Session::stop`] before. A signal that asks for the end is heard again from now on.
    pub async fn finish(mut self) -> Closing {
        self.warn_of_no_metadata();
        let summary = self.summary();
        let seen = Seen {
            metadata: summary.metadata_seen == Some(true),
            stalls: summary.stalls,
        };
        let mut asked = vec![SignalKind::terminate(), SignalKind::interrupt()];
        // It may be meant for the report file.
        if !self.can_reopen() {
            asked.push(SignalKind::hangup());
        }
        let mut asked: Vec<_> = asked.into_iter().flat_map(signal).collect();
        let heard = std::future::poll_fn(move |context| {
            let heard = asked
                .iter_mut()
                .any(|stream| stream.poll_recv(context).is_ready());
            if heard {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        // What ended the program may come once more: timeout(1) sends it to us, and to all of us.
        let hurry = async {
            heard.await;
            tokio::time::sleep(GRACE).await;
        };
        let decision_log = async {
            match self.decision_log {
                Some(log) => log.finish().await,
                None => None,
            }
        };
        let reporter = self.reporter.finish(summary, LAST_EXPLANATIONS, hurry);
        let kept = self.keeper.finish();
        let (closing, failure, ()) = tokio::join!(reporter, decision_log, kept);
        Closing {
            failure: closing.failure.or(failure),
            seen,
            ..closing
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let totals = summarized(&self.watched.sum(), self.starts.spent().as_secs_f64());
        let end = self.stopped.unwrap_or_else(Instant::now);
        let elapsed_s = end.duration_since(self.started).as_secs_f64();
        Summary {
            metadata_seen: Some(self.has_seen_metadata(&totals)),
            elapsed_s,
            one_cpu_percent: if elapsed_s > 0.0 {
                100.0 * totals.spent() / elapsed_s
            } else {
                0.0
            },
            max_overhead_percent: 100.0 * self.args.max_overhead,
            sample_period_s: self.args.sample_period.map(|period| period.as_secs_f64()),
            watchdog_releases: self.releases,
            not_watched: self.not_watched.clone(),
            dropped: self.dropped + totals.dropped,
            ..totals
        }
    }

    /// Whether anything that was executed carries metadata, as far as is known by now, of the session whose figures these are. What is loaded later than at the
    /// start is known by what was seen of its code alone.
    fn has_seen_metadata(&self, totals: &Summary) -> bool {
        let descendants = self.descendants.as_ref();
        let has_sites = totals.sites_total.is_some_and(|sites| sites > 0);
        let was_sampled = totals.analyzed_percent.is_some_and(|percent| percent > 0.0);
        self.has_analyzed
            || self.has_metadata
            || descendants.is_some_and(Descendants::have_metadata)
            || !self.not_watched.is_empty()
            || has_sites
            || was_sampled
            || totals.stalls > 0
    }
}

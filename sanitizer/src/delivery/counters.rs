//! What has become of messages, counted since the program was started.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::answer::Answer;

/// See the module.
#[derive(Debug, Default)]
pub struct Counters {
    taken: AtomicU64,
    before: AtomicU64,
    refused: AtomicU64,
    unknown: AtomicU64,
    later: AtomicU64,
    /// Records that were not in the store yet.
    records: AtomicU64,
    /// Times that were counted of races that the store has not.
    passed_over: AtomicU64,
    /// The store cannot be written to.
    is_away: AtomicBool,
}

impl Counters {
    /// Counts an answer.
    pub(super) fn note(&self, answer: &Answer) {
        let counter = match answer {
            Answer::Taken {
                records,
                passed_over,
            } => {
                self.records.fetch_add(*records as u64, Relaxed);
                self.passed_over.fetch_add(*passed_over, Relaxed);
                &self.taken
            }
            Answer::Before => &self.before,
            Answer::Refused { .. } => &self.refused,
            Answer::Unknown => &self.unknown,
            Answer::Later { .. } => &self.later,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Says whether the store can be written to, and whether that was otherwise before.
    pub(super) fn set_away(&self, is_away: bool) -> bool {
        self.is_away.swap(is_away, Relaxed) != is_away
    }

    /// Whether the store could not be written to when it was tried last.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.is_away.load(Relaxed)
    }

    /// Messages, by what has become of them.
    fn messages(&self) -> [(&'static str, u64); 5] {
        [
            ("taken", &self.taken),
            ("before", &self.before),
            ("refused", &self.refused),
            ("unauthorized", &self.unknown),
            ("later", &self.later),
        ]
        .map(|(name, counter)| (name, counter.load(Relaxed)))
    }

    /// All of them in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let [
            (_, taken),
            (_, before),
            (_, refused),
            (_, unknown),
            (_, later),
        ] = self.messages();
        format!(
            "messages: taken={taken} again={before} refused={refused} unauthorized={unknown} put_off={later}; new_records={} counts_of_unknown_races={}",
            self.records.load(Relaxed),
            self.passed_over.load(Relaxed)
        )
    }

    /// All of them in the text form of Prometheus (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut text = String::from(
            "# HELP gwp_race_messages_total Messages of hosts, by what has become of them.\n\
             # TYPE gwp_race_messages_total counter\n",
        );
        for (name, count) in self.messages() {
            let _ = writeln!(text, "gwp_race_messages_total{{result=\"{name}\"}} {count}");
        }
        for (name, help, kind, value) in [
            (
                "gwp_race_records_total",
                "Records of races that the store did not have.",
                "counter",
                self.records.load(Relaxed),
            ),
            (
                "gwp_race_passed_over_total",
                "Times that were counted of races that the store does not have.",
                "counter",
                self.passed_over.load(Relaxed),
            ),
            (
                "gwp_race_store_up",
                "Whether the store could be written to when it was tried last.",
                "gauge",
                u64::from(!self.is_away()),
            ),
        ] {
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
            );
        }
        text
    }
}

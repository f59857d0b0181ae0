//! What has become of messages, counted since the program was started.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::answer::Answer;
use crate::metrics::{Kind, Metric, Unit};

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
    /// Messages of which all was taken but what was learned.
    not_learned: AtomicU64,
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

    /// A message is taken without what was learned.
    pub(super) fn not_learned(&self) {
        self.not_learned.fetch_add(1, Relaxed);
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

    /// All of them, for whoever collects figures.
    #[must_use]
    pub fn metrics(&self) -> [Metric; 5] {
        [
            Metric::several(
                "gwp_race.messages",
                "Messages of hosts, by what has become of them.",
                Unit::Of("message"),
                "result",
                self.messages(),
            ),
            Metric::one(
                "gwp_race.records",
                "Records of races that the store did not have.",
                Unit::Of("record"),
                Kind::Counter,
                self.records.load(Relaxed),
            ),
            Metric::one(
                "gwp_race.passed_over",
                "Times that were counted of races that the store does not have.",
                Unit::Of("sighting"),
                Kind::Counter,
                self.passed_over.load(Relaxed),
            ),
            Metric::one(
                "gwp_race.not_learned",
                "Messages of which the store has taken all but what was learned.",
                Unit::Of("message"),
                Kind::Counter,
                self.not_learned.load(Relaxed),
            ),
            Metric::one(
                "gwp_race.store_up",
                "Whether the store could be written to when it was tried last.",
                Unit::Truth,
                Kind::Gauge,
                u64::from(!self.is_away()),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{check, prometheus};

    /// Check that the page of figures is as Prometheus wants it.
    #[test]
    fn page() {
        let text = prometheus(&Counters::default().metrics());
        assert_eq!(check(&text), [""; 0]);
        assert!(
            text.contains("\ngwp_race_messages_total{result=\"taken\"} 0\n"),
            "{text}"
        );
        assert!(text.contains("\ngwp_race_store_up 1\n"), "{text}");
    }
}

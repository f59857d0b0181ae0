//! What there is to say of an outbox, as figures that others collect.

use super::{DaemonFigures, ENDINGS, Figures};
use crate::metrics::{Kind, Metric, Unit};

impl Figures {
    /// All of them.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let counter = |name, help, unit, value| Metric::one(name, help, unit, Kind::Counter, value);
        let gauge = |name, help, unit, value| Metric::one(name, help, unit, Kind::Gauge, value);
        let works = |failing: &Option<String>| u64::from(failing.is_none());
        let mut all = vec![
            counter(
                "gwp_race.agent.races",
                "Races of builds that were found on this machine for the first time.",
                Unit::Of("race"),
                self.races,
            ),
            counter(
                "gwp_race.agent.sightings",
                "How often races were caught on this machine.",
                Unit::Of("sighting"),
                self.caught,
            ),
            Metric::several(
                "gwp_race.agent.dropped",
                "What was dropped, of a full outbox or since nobody was named any more who takes it, by what it was.",
                Unit::Of("record"),
                "class",
                [
                    ("evidence", self.lost_evidence),
                    ("repeats", self.lost_repeats),
                    ("first_sightings", self.lost_sightings),
                    ("learning", self.lost_learning),
                ],
            ),
            Metric::several(
                "gwp_race.agent.messages",
                "Messages to the collector of gwp-race, by what has become of them.",
                Unit::Of("message"),
                "result",
                [
                    ("taken", self.taken),
                    ("refused", self.refused),
                    ("dropped", self.messages_lost),
                ],
            ),
            Metric::several(
                "gwp_race.agent.events",
                "Events to the collector of OpenTelemetry, by what has become of them.",
                Unit::Of("event"),
                "result",
                [
                    ("taken", self.events_taken),
                    ("refused", self.events_refused),
                    ("dropped", self.events_lost),
                ],
            ),
            gauge(
                "gwp_race.agent.outbox.size",
                "What is kept for the collector of gwp-race.",
                Unit::Bytes,
                self.bytes,
            ),
            gauge(
                "gwp_race.agent.outbox.limit",
                "What may be kept for the collector of gwp-race.",
                Unit::Bytes,
                self.most_bytes,
            ),
            gauge(
                "gwp_race.agent.outbox.items",
                "What is in no message yet: races, counts, programs.",
                Unit::Of("item"),
                self.items,
            ),
            gauge(
                "gwp_race.agent.outbox.oldest",
                "For how long the oldest of what is not sent yet is kept; 0 where all is sent.",
                Unit::Seconds,
                self.oldest_s.unwrap_or_default(),
            ),
            gauge(
                "gwp_race.agent.events.waiting",
                "Events that are not sent yet.",
                Unit::Of("event"),
                self.events_waiting,
            ),
        ];
        if !self.collector.is_empty() {
            all.push(gauge(
                "gwp_race.agent.collector.up",
                "Whether the collector of gwp-race has taken what was sent last.",
                Unit::Truth,
                works(&self.failing),
            ));
        }
        if self.otlp.is_some() {
            all.push(gauge(
                "gwp_race.agent.otlp.events.up",
                "Whether the collector of OpenTelemetry has taken the events that were sent last.",
                Unit::Truth,
                works(&self.events_failing),
            ));
            all.push(gauge(
                "gwp_race.agent.otlp.metrics.up",
                "Whether the collector of OpenTelemetry has taken the figures that were sent last.",
                Unit::Truth,
                works(&self.metrics_failing),
            ));
        }
        if let Some(daemon) = &self.daemon {
            all.extend(daemon.metrics());
        }
        all
    }
}

impl DaemonFigures {
    fn metrics(&self) -> Vec<Metric> {
        let counter = |name, help, unit, value| Metric::one(name, help, unit, Kind::Counter, value);
        let gauge = |name, help, unit, value| Metric::one(name, help, unit, Kind::Gauge, value);
        let ended = |why| self.leases_ended.get(why).copied().unwrap_or_default();
        let mut all = vec![
            counter(
                "gwp_race.daemon.leases.begun",
                "Leases that have begun.",
                Unit::Of("lease"),
                self.leases_begun,
            ),
            Metric::several(
                "gwp_race.daemon.leases.ended",
                "Leases that have ended, by why.",
                Unit::Of("lease"),
                "reason",
                ENDINGS.map(|why| (why, ended(why))),
            ),
            counter(
                "gwp_race.daemon.stalls",
                "How often a thread was held before an access, for another one to come.",
                Unit::Of("stall"),
                self.stalls,
            ),
            Metric::several(
                "gwp_race.daemon.cost",
                "What watching has cost: by leases (CPU time, and time for which threads stood), and CPU time otherwise.",
                Unit::Nanoseconds,
                "of",
                [("leases", self.cost_ns), ("otherwise", self.overhead_ns)],
            ),
            gauge(
                "gwp_race.daemon.up",
                "Whether the daemon has told within three minutes what it does.",
                Unit::Truth,
                self.now.is_some().into(),
            ),
        ];
        if let Some(now) = self.now {
            all.extend([
                gauge(
                    "gwp_race.daemon.processes",
                    "Processes that may be watched, each with a purse.",
                    Unit::Of("process"),
                    now.processes,
                ),
                gauge(
                    "gwp_race.daemon.leases.active",
                    "Leases that go on.",
                    Unit::Of("lease"),
                    now.leases,
                ),
                gauge(
                    "gwp_race.daemon.held",
                    "Whether no lease begins, by a pause or for want of something.",
                    Unit::Truth,
                    now.is_held.into(),
                ),
            ]);
        }
        all
    }
}

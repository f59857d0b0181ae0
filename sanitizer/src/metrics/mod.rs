//! Figures that others collect: what each is called and means, and its values now. [`prometheus`] writes them as text for whoever asks; `otlp` sends them.

mod prometheus;

#[cfg(test)]
pub(crate) use prometheus::check;
pub use prometheus::{TEXT, prometheus};

/// How a figure behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from when it began to be counted.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// What a figure counts, by the words of UCUM that OpenTelemetry takes (<https://opentelemetry.io/docs/specs/semconv/general/metrics/>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, by a word for one of them.
    Of(&'static str),
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Nanoseconds, which are told as seconds.
    Nanoseconds,
    /// Nothing: 0 or 1.
    Truth,
}

/// A value of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// What it is of, where there are several: a name and a word.
    pub of: Option<(&'static str, &'static str)>,
    /// The value.
    pub value: u64,
}

/// A figure. Its name has parts of small letters and underscores with dots between them, and says neither the unit nor the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// See the type.
    pub name: &'static str,
    /// What it means, in a line.
    pub help: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// How it behaves.
    pub kind: Kind,
    /// Its values, each of something else.
    pub points: Vec<Point>,
}

impl Metric {
    /// One of a single value.
    #[must_use]
    pub fn one(name: &'static str, help: &'static str, unit: Unit, kind: Kind, value: u64) -> Self {
        Self {
            name,
            help,
            unit,
            kind,
            points: vec![Point { of: None, value }],
        }
    }

    /// A counter of several values, each of another word.
    #[must_use]
    pub fn several<const N: usize>(
        name: &'static str,
        help: &'static str,
        unit: Unit,
        key: &'static str,
        values: [(&'static str, u64); N],
    ) -> Self {
        let points = values.map(|(word, value)| Point {
            of: Some((key, word)),
            value,
        });
        Self {
            name,
            help,
            unit,
            kind: Kind::Counter,
            points: points.into(),
        }
    }
}

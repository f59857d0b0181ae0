//! The text form of Prometheus, version 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Figures have the names that a collector of OpenTelemetry makes of theirs for Prometheus
//! (<https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>), so that both ways lead to the same ones.

use std::{fmt::Write as _, time::Duration};

use super::{Kind, Metric, Unit};

/// The type of that text, as a header tells it.
pub const TEXT: &str = "text/plain; version=0.0.4";

/// All of them as text.
#[must_use]
pub fn prometheus(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics {
        let name = name_of(metric);
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        // Nothing that is written to a text fails.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for point in &metric.points {
            let value = match metric.unit {
                Unit::Nanoseconds => {
                    let time = Duration::from_nanos(point.value);
                    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
                }
                _ => point.value.to_string(),
            };
            let _ = match point.of {
                Some((key, word)) => {
                    writeln!(text, "{name}{{{key}=\"{}\"}} {value}", escaped(word))
                }
                None => writeln!(text, "{name} {value}"),
            };
        }
    }
    text
}

fn name_of(metric: &Metric) -> String {
    let mut name = metric.name.replace('.', "_");
    name.push_str(match metric.unit {
        Unit::Bytes => "_bytes",
        Unit::Seconds | Unit::Nanoseconds => "_seconds",
        Unit::Of(_) | Unit::Truth => "",
    });
    if metric.kind == Kind::Counter {
        name.push_str("_total");
    }
    name
}

fn escaped(word: &str) -> String {
    let word = word.replace('\\', "\\\\");
    word.replace('"', "\\\"").replace('\n', "\\n")
}

/// What is wrong with such a text, by the rules of `promtool check metrics` and of the form itself.
#[cfg(test)]
pub(crate) fn check(text: &str) -> Vec<String> {
    use std::collections::BTreeSet;

    let mut wrong = Vec::new();
    let mut families = BTreeSet::new();
    let mut samples = BTreeSet::new();
    // The name and the kind of the family that is being told.
    let mut family: Option<(String, Option<String>)> = None;
    if !text.ends_with('\n') {
        wrong.push("the last line does not end".to_owned());
    }
    for line in text.lines() {
        let mut is_wrong = |what: &str| wrong.push(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let Some((name, help)) = rest.split_once(' ') else {
                is_wrong("no help");
                continue;
            };
            if help.trim().is_empty() {
                is_wrong("no help");
            }
            if !families.insert(name.to_owned()) {
                is_wrong("told before");
            }
            family = Some((name.to_owned(), None));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else {
                is_wrong("no type");
                continue;
            };
            let is_known = matches!(kind, "counter" | "gauge");
            if !is_known || (kind == "counter") != name.ends_with("_total") {
                is_wrong("counters, and they alone, end in _total");
            }
            match &mut family {
                Some((told, of @ None)) if told.as_str() == name => *of = Some(kind.to_owned()),
                _ => is_wrong("not behind its help"),
            }
        } else {
            let Some((series, value)) = line.rsplit_once(' ') else {
                is_wrong("no value");
                continue;
            };
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, labels.strip_suffix('}')),
                None => (series, Some("")),
            };
            if !family
                .as_ref()
                .is_some_and(|(told, kind)| told == name && kind.is_some())
            {
                is_wrong("not behind its type");
            }
            let is_name = |name: &str, more: &str| {
                let mut chars = name.chars();
                let first = chars
                    .next()
                    .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
                first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || more.contains(c))
            };
            if !is_name(name, ":") || name.chars().any(|c| c.is_ascii_uppercase()) {
                is_wrong("no name");
            }
            // One label at most, whose value has quotes and ends of lines only behind a backslash.
            let is_label = |labels: &str| {
                let label = labels.split_once("=\"");
                let label = label.and_then(|(key, value)| Some((key, value.strip_suffix('"')?)));
                label.is_some_and(|(key, value)| {
                    let bare = value
                        .replace("\\\\", "")
                        .replace("\\\"", "")
                        .replace("\\n", "");
                    is_name(key, "") && !bare.contains(['"', '\\', '\n'])
                })
            };
            if !labels.is_some_and(|labels| labels.is_empty() || is_label(labels)) {
                is_wrong("no label");
            }
            if value.parse::<f64>().is_err() {
                is_wrong("no number");
            }
            if !samples.insert(series.to_owned()) {
                is_wrong("told twice");
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check how figures of each kind and unit are written, with the marks that the form wants before some characters.
    #[test]
    fn text_of_figures() {
        let metrics = [
            Metric::several(
                "gwp_race.messages",
                "Messages \\ of\nhosts.",
                Unit::Of("message"),
                "result",
                [("taken", 3), ("so \"so\"\\\n", u64::MAX)],
            ),
            Metric::one(
                "gwp_race.outbox.size",
                "Bytes.",
                Unit::Bytes,
                Kind::Gauge,
                0,
            ),
            Metric::one("gwp_race.age", "Age.", Unit::Seconds, Kind::Counter, 1),
            Metric::one(
                "gwp_race.cost",
                "Cost.",
                Unit::Nanoseconds,
                Kind::Counter,
                12_000_345_678,
            ),
        ];
        let text = prometheus(&metrics);
        assert_eq!(
            text,
            "# HELP gwp_race_messages_total Messages \\\\ of\\nhosts.\n\
             # TYPE gwp_race_messages_total counter\n\
             gwp_race_messages_total{result=\"taken\"} 3\n\
             gwp_race_messages_total{result=\"so \\\"so\\\"\\\\\\n\"} 18446744073709551615\n\
             # HELP gwp_race_outbox_size_bytes Bytes.\n\
             # TYPE gwp_race_outbox_size_bytes gauge\n\
             gwp_race_outbox_size_bytes 0\n\
             # HELP gwp_race_age_seconds_total Age.\n\
             # TYPE gwp_race_age_seconds_total counter\n\
             gwp_race_age_seconds_total 1\n\
             # HELP gwp_race_cost_seconds_total Cost.\n\
             # TYPE gwp_race_cost_seconds_total counter\n\
             gwp_race_cost_seconds_total 12.000345678\n"
        );
        assert_eq!(check(&text), [""; 0]);
    }

    /// Check that the check finds what is wrong.
    #[test]
    fn what_is_wrong_is_found() {
        let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{of=\"x\"} 1\n";
        assert_eq!(check(good), [""; 0]);
        for (from, to) in [
            ("# HELP a_total A.\n", ""),
            ("A.", ""),
            ("# TYPE a_total counter\n", ""),
            ("counter", "gauge"),
            ("counter", "number"),
            ("_total", ""),
            ("a_total{", "b_total{"),
            ("{of=", "{0f="),
            ("\"x\"", "\"x\"\""),
            ("\"x\"", "\"\\x\""),
            ("} 1", "}"),
            ("} 1", "} one"),
            ("a_total", "A_total"),
            (" 1\n", " 1\na_total{of=\"x\"} 2\n"),
            (" 1\n", " 1"),
            (" 1\n", " 1\n# HELP a_total A.\n"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(check(&text), [""; 0], "{text}");
        }
    }
}

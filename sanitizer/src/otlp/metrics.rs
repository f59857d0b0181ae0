//! Figures of an agent as OTLP has them: each value with when it was taken, and counters with since when they count.

use std::time::Duration;

use serde_json::{Value, json};

use super::value::{Attributes, nanoseconds, resource, scope};
use crate::metrics::{Kind, Metric, Point, Unit};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE` of `opentelemetry/proto/metrics/v1/metrics.proto`.
const CUMULATIVE: u8 = 2;

/// A request with all of them. `instance`: which agent it is. `since` when it has counted, and `now`: milliseconds since 1970.
#[must_use]
pub fn metrics(all: &[Metric], host: &str, instance: &str, since: i64, now: i64) -> String {
    let metrics = all.iter().map(|metric| {
        let points = metric.points.iter();
        let points: Vec<_> = points.map(|point| value(metric, point, since, now)).collect();
        let mut json = json!({
            "name": metric.name,
            "description": metric.help,
            "unit": unit(metric.unit),
        });
        let (kind, data) = match metric.kind {
            Kind::Counter => (
                "sum",
                json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points }),
            ),
            Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        };
        json[kind] = data;
        json
    });
    let metrics: Vec<_> = metrics.collect();
    let resource = resource(host).text("service.instance.id", instance);
    let request = json!({
        "resourceMetrics": [{
            "resource": { "attributes": resource.json() },
            "scopeMetrics": [{ "scope": scope(), "metrics": metrics }],
        }],
    });
    request.to_string()
}

fn value(metric: &Metric, point: &Point, since: i64, now: i64) -> Value {
    let mut json = json!({ "timeUnixNano": nanoseconds(now) });
    if metric.unit == Unit::Nanoseconds {
        json["asDouble"] = Duration::from_nanos(point.value).as_secs_f64().into();
    } else {
        // Signed, as OTLP has it. Whoever reads this JSON takes whole numbers as texts and as numbers; collectors that are built on the `opentelemetry-proto` of Rust lose the former here without a word (rotel 0.0.1a15).
        json["asInt"] = point.value.min(i64::MAX.cast_unsigned()).into();
    }
    if metric.kind == Kind::Counter {
        json["startTimeUnixNano"] = nanoseconds(since).into();
    }
    if let Some((key, word)) = point.of {
        json["attributes"] = Attributes::default().text(key, word).json();
    }
    json
}

fn unit(unit: Unit) -> String {
    match unit {
        Unit::Of(thing) => format!("{{{thing}}}"),
        Unit::Bytes => "By".to_owned(),
        Unit::Seconds | Unit::Nanoseconds => "s".to_owned(),
        // As a thing that is counted. A gauge of the unit 1 is a ratio, and Prometheus would find it as such behind a collector.
        Unit::Truth => "{truth}".to_owned(),
    }
}

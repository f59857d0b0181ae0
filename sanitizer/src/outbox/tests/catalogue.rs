//! The names of figures: by OTLP, by Prometheus, and in the documentation.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use super::*;
use crate::{
    metrics::{Metric, prometheus},
    otlp,
};

/// All that there are.
fn all() -> Vec<Metric> {
    let figures = Figures {
        collector: "https://races".to_owned(),
        otlp: Some("https://otel".to_owned()),
        daemon: Some(DaemonFigures {
            now: Some(DaemonNow::default()),
            ..DaemonFigures::default()
        }),
        ..Figures::default()
    };
    figures.metrics()
}

/// What collectors of OpenTelemetry call a figure of OTLP where they tell it to Prometheus: `pkg/translator/prometheus` of opentelemetry-collector-contrib, and "Metric Metadata" of
/// <https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>, as far as these units go.
fn told_to_prometheus(metric: &Value) -> String {
    let [name, unit] = ["name", "unit"].map(|key| metric[key].as_str().unwrap());
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut words: Vec<_> = name
        .split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    // What stands in braces is none; what it does not know is taken as it is.
    let suffix = match unit {
        "s" => "seconds",
        "By" => "bytes",
        "1" => "",
        unit if unit.contains(['{', '}']) => "",
        unit => unit,
    };
    if !suffix.is_empty() && !words.contains(&suffix) {
        words.push(suffix);
    }
    let mut end = |word| {
        words.retain(|one| *one != word);
        words.push(word);
    };
    if metric["sum"]["isMonotonic"] == true {
        end("total");
    }
    if metric["gauge"].is_object() && unit == "1" {
        end("ratio");
    }
    words.join("_")
}

/// The names of all, by OTLP and what a collector makes of them.
fn names() -> BTreeMap<String, String> {
    let request = otlp::metrics(&all(), "web1", "id", 1, 2);
    let request: Value = serde_json::from_str(&request).unwrap();
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array();
    let metrics = metrics.unwrap().iter();
    let names: BTreeMap<_, _> = metrics
        .map(|metric| {
            let name = metric["name"].as_str().unwrap().to_owned();
            (name, told_to_prometheus(metric))
        })
        .collect();
    assert!(names.len() > 15, "{names:?}");
    names
}

/// Check that whoever finds figures behind a collector of OpenTelemetry finds them by the names of our own page.
#[test]
fn names_are_the_same_both_ways() {
    let page = prometheus(&all());
    let families = page.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some(name.to_owned())
    });
    let mut families: Vec<_> = families.collect();
    families.sort();
    let mut told: Vec<_> = names().into_values().collect();
    told.sort();
    assert_eq!(told, families);
    // Collectors differ in what they do with a unit that a name has already.
    for name in names().keys() {
        for word in name.split(['.', '_']) {
            let is_suffix = matches!(word, "total" | "ratio" | "seconds" | "bytes");
            assert!(!is_suffix, "{name}");
        }
    }
}

/// Check that the documentation has each figure, by both names, and no other.
#[test]
fn figures_are_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n### Figures\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut documented = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_start_matches("| ").split(" | ");
        let [otlp, prometheus] = [cells.next(), cells.next()].map(|cell| {
            let names = cell.unwrap().split(", ");
            names.map(|name| name.trim_matches('`').to_owned())
        });
        documented.extend(otlp.zip(prometheus));
    }
    assert_eq!(documented, names());
}

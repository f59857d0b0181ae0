//! Races as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"), which code hosts and editors show at the lines. A document is one
//! whole, so it is written when watching has ended.
//!
//! Both stacks of a race are thread flows of one code flow, from the outermost frame to the access; the racing access is its related location. Files below
//! the source root are named relative to `SRCROOT`.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use serde_sarif::sarif::{
    ArtifactLocation, CodeFlow, Invocation, Location, LogicalLocation, Message,
    MultiformatMessageString, PhysicalLocation, PropertyBag, Region, ReportingDescriptor,
    Result as SarifResult, ResultKind, ResultLevel, Run, Sarif, ThreadFlow, ThreadFlowLocation,
    Tool, ToolComponent,
};

use super::clean::clean;
use super::locks::missing_lock;
use super::model::{Access, Race, StackFrame};
use super::own_code::own_place;
use super::source_root::SourceRoot;
use super::summary::Summary;
use super::words::{capitalized, sentence, what};
use super::writer::{Output, ReportWriter, WriteError};

/// Where the schema is that documents say they follow.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// The folder from which files are named.
const BASE: &str = "SRCROOT";
/// The only rule.
const RULE: &str = "data-race";

/// See the module.
pub struct SarifWriter {
    output: Output,
    root: SourceRoot,
    /// A baseline was given: which races are new is known.
    has_baseline: bool,
    races: Vec<Race>,
}

impl SarifWriter {
    /// Writes to `out`, which errors call `path`. `has_baseline`: that races are not known means that they are new.
    #[must_use]
    pub fn new(
        out: Box<dyn Write + Send>,
        path: impl Into<String>,
        root: SourceRoot,
        has_baseline: bool,
    ) -> Self {
        Self {
            output: Output::new(out, path),
            root,
            has_baseline,
            races: Vec::new(),
        }
    }
}

impl ReportWriter for SarifWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        self.races.push(race.clone());
        Ok(())
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError> {
        let document = document(&self.races, summary, &self.root, self.has_baseline);
        let mut text =
            serde_json::to_string(&document).map_err(|error| self.output.failed(error))?;
        text.push('\n');
        self.output.write(&text)?;
        self.races.clear();
        Ok(())
    }

    fn without_summary(&mut self) -> Result<(), WriteError> {
        self.summary(&Summary::default())
    }

    fn take_unwritten(&mut self) -> Vec<Race> {
        std::mem::take(&mut self.races)
    }
}

fn document(races: &[Race], summary: &Summary, root: &SourceRoot, has_baseline: bool) -> Sarif {
    let results = races.iter().map(|race| {
        let mut result = result(race, root, has_baseline);
        let sighting = summary.sighting(race);
        result.occurrence_count = sighting.map(|sighting| sighting.times.cast_signed());
        result
    });
    let figures = serde_json::to_value(summary).unwrap_or_default();
    let driver = ToolComponent::builder()
        .name("gwp-race")
        .semantic_version(env!("CARGO_PKG_VERSION"))
        .rules(vec![rule()])
        .build();
    let invocation = Invocation::builder()
        .execution_successful(true)
        .properties(bag([("summary", figures)]))
        .build();
    let mut run = Run::builder()
        .tool(Tool::builder().driver(driver).build())
        .invocations(vec![invocation])
        .column_kind(json!("unicodeCodePoints"))
        .results(results.collect::<Vec<_>>())
        .build();
    if let Some(folder) = root.folder().and_then(|folder| folder.to_str()) {
        let base = ArtifactLocation::builder()
            .uri(format!("{}/", file_uri(folder.trim_end_matches('/'))))
            .build();
        run.original_uri_base_ids = Some(BTreeMap::from([(BASE.to_owned(), base)]));
    }
    Sarif::builder()
        .version(json!("2.1.0"))
        .schema(SCHEMA)
        .runs(vec![run])
        .build()
}

fn rule() -> ReportingDescriptor {
    let text = |text: &str| MultiformatMessageString::builder().text(text).build();
    ReportingDescriptor::builder()
        .id(RULE)
        .name("DataRace")
        .short_description(text("Data race"))
        .full_description(text(
            "Two threads access the same bytes, at least one of them writes, at least one access is not atomic, and nothing orders the two.",
        ))
        .help(text(
            "One thread was held just before its access, and another one accessed the same bytes meanwhile: nothing had ordered the two. \
             Guard both by the same lock, or make both atomic.",
        ))
        .properties(bag([("tags", json!(["correctness", "concurrency"]))]))
        .build()
}

fn result(race: &Race, root: &SourceRoot, has_baseline: bool) -> SarifResult {
    let [stalled, racing] = &race.accesses;
    let mut related = place(racing, root);
    related.id = Some(1);
    related.message = Some(message(format!("concurrent {}", what(racing))));
    let flows = race.accesses.iter().map(|access| thread_flow(access, root));
    let mut prints =
        BTreeMap::from([("gwpRaceFingerprint/v1".to_owned(), race.fingerprint.clone())]);
    let names = [&race.identity.race, &race.identity.issue];
    for (key, name) in ["race", "issue"].into_iter().zip(names) {
        // `r3:0123...`: the version of the rule, and the name.
        if let Some((version, name)) = name.split_once(':') {
            let version = version.trim_start_matches(|c: char| !c.is_ascii_digit());
            prints.insert(format!("gwpRace/{key}/v{version}"), name.to_owned());
        }
    }
    let mut result = SarifResult::builder()
        .rule_id(RULE)
        .rule_index(0)
        .kind(ResultKind::Fail)
        .level(if race.known {
            ResultLevel::Note
        } else {
            ResultLevel::Error
        })
        .message(message(told(race)))
        .locations(vec![place(stalled, root)])
        .related_locations(vec![related])
        .code_flows(vec![
            CodeFlow::builder()
                .thread_flows(flows.collect::<Vec<_>>())
                .build(),
        ])
        .partial_fingerprints(prints)
        .properties(bag([
            ("verdict", json!(race.verdict)),
            ("address", json!(race.address)),
            ("size", json!(race.size)),
            ("pid", json!(race.pid)),
            ("executable", json!(race.exe)),
            ("time", json!(race.time)),
            ("notes", json!(race.notes)),
        ]))
        .build();
    if has_baseline {
        let state = if race.known { "unchanged" } else { "new" };
        result.baseline_state = Some(json!(state));
    }
    result
}

/// The stack of an access as steps that lead to it.
fn thread_flow(access: &Access, root: &SourceRoot) -> ThreadFlow {
    let innermost = access.stack.len().saturating_sub(1);
    let steps = access.stack.iter().rev().enumerate().map(|(index, frame)| {
        let mut location = location(frame, root);
        let is_access = index == innermost;
        let text = if is_access {
            format!("{} of size {}", what(access), access.size)
        } else {
            "calls".to_owned()
        };
        location.message = Some(message(text));
        let mut step = ThreadFlowLocation::builder()
            .location(location)
            .nesting_level(i64::try_from(index).unwrap_or(i64::MAX))
            .importance(json!(if is_access { "essential" } else { "important" }))
            .build();
        step.module.clone_from(&frame.module);
        step
    });
    let mut steps: Vec<_> = steps.collect();
    if steps.is_empty() {
        // There has to be one.
        let location = Location::builder().message(message(what(access))).build();
        steps.push(ThreadFlowLocation::builder().location(location).build());
    }
    ThreadFlow::builder()
        .id(format!("thread {}", access.tid))
        .message(message(format!(
            "{} by thread '{}' ({})",
            capitalized(what(access)),
            clean(&access.thread_name),
            access.role.name()
        )))
        .locations(steps)
        .build()
}

/// Where a programmer would look for an access.
fn place(access: &Access, root: &SourceRoot) -> Location {
    own_place(access).map_or_else(Location::default, |frame| location(frame, root))
}

fn location(frame: &StackFrame, root: &SourceRoot) -> Location {
    let mut location = Location::default();
    let file = frame.file.as_ref().or(frame.module.as_ref());
    if let Some(file) = file {
        let mut physical = PhysicalLocation::builder()
            .artifact_location(artifact(file, root))
            .build();
        // Of the module there are no lines.
        if let Some(line) = frame.line.filter(|&line| line > 0 && frame.file.is_some()) {
            let mut region = Region::builder().start_line(i64::from(line)).build();
            region.start_column = frame.column.filter(|&column| column > 0).map(i64::from);
            physical.region = Some(region);
        }
        location.physical_location = Some(physical);
    }
    if let Some(function) = &frame.function {
        let logical = LogicalLocation::builder()
            .fully_qualified_name(function.as_str())
            .kind("function")
            .build();
        location.logical_locations = Some(vec![logical]);
    }
    location
}

fn artifact(file: &str, root: &SourceRoot) -> ArtifactLocation {
    match root.below(file) {
        Some(below) => ArtifactLocation::builder()
            .uri(escaped(&below))
            .uri_base_id(BASE)
            .build(),
        None if file.starts_with('/') => ArtifactLocation::builder().uri(file_uri(file)).build(),
        // As the compiler was given it: from where is not known.
        None => ArtifactLocation::builder().uri(escaped(file)).build(),
    }
}

fn file_uri(path: &str) -> String {
    format!("file://{}", escaped(path))
}

/// A path as that of a URI (RFC 3986, section 3.3).
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'/'
            | b'+'
            | b'@'
            | b','
            | b'=' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A race in a sentence, and which side lacks a lock.
fn told(race: &Race) -> String {
    match missing_lock(race) {
        Some(missing) => format!("{}. {}", sentence(race), capitalized(&missing)),
        None => sentence(race),
    }
}

fn message(text: impl Into<String>) -> Message {
    Message::builder().text(text).build()
}

fn bag<const N: usize>(properties: [(&str, Value); N]) -> PropertyBag {
    let mut bag = PropertyBag::builder().build();
    for (name, value) in properties {
        if name == "tags" {
            bag.tags = serde_json::from_value(value).ok();
        } else {
            bag.additional_properties.insert(name.to_owned(), value);
        }
    }
    bag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::writer::testing::kept;

    /// The official schema (OASIS, sarif-schema-2.1.0.json, errata 01).
    const OFFICIAL: &str = include_str!("sarif-schema-2.1.0.json");

    fn written(races: &[Race], root: SourceRoot, has_baseline: bool) -> Value {
        let (out, written) = kept();
        let mut writer = SarifWriter::new(out, "test", root, has_baseline);
        for race in races {
            writer.race(race).unwrap();
        }
        assert_eq!(written(), "");
        writer.summary(&Summary::default()).unwrap();
        assert!(writer.take_unwritten().is_empty());
        serde_json::from_str(&written()).unwrap()
    }

    /// Check that documents follow the official schema, with and without races, names that are missing, and such as URIs cannot hold.
    #[test]
    fn documents_follow_the_schema() {
        let schema: Value = serde_json::from_str(OFFICIAL).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut nameless = sample::race();
        for access in &mut nameless.accesses {
            access.stack = vec![StackFrame::default()];
        }
        let mut strange = sample::race();
        strange.known = true;
        for access in &mut strange.accesses {
            for frame in &mut access.stack {
                frame.file = Some("/src/a b%ü\n?#.c".to_owned());
                frame.line = Some(0);
                frame.function = Some("f<\u{202e}>".to_owned());
            }
        }
        let mut empty = sample::race();
        empty
            .accesses
            .iter_mut()
            .for_each(|access| access.stack.clear());
        let all = [sample::race(), nameless, strange, empty];
        for races in [&all[..], &[]] {
            for root in [SourceRoot::new("/src"), SourceRoot::default()] {
                let document = written(races, root, true);
                let errors: Vec<String> = validator
                    .iter_errors(&document)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                assert!(errors.is_empty(), "{errors:#?}");
            }
        }
        // The schema refuses something.
        let mut wrong = written(&all, SourceRoot::default(), false);
        wrong["runs"][0]["results"][0]["level"] = json!("fatal");
        assert!(!validator.is_valid(&wrong));
    }

    /// Check what of a race is where: both accesses at their lines, both stacks from the outside in, and the names that a host tells races by.
    #[test]
    fn races_are_results() {
        let race = sample::race();
        let document = written(std::slice::from_ref(&race), SourceRoot::new("/src"), false);
        let run = &document["runs"][0];
        assert_eq!(run["originalUriBaseIds"][BASE]["uri"], "file:///src/");
        let result = &run["results"][0];
        let at = &result["locations"][0]["physicalLocation"];
        assert_eq!(at["artifactLocation"]["uri"], "worker.c");
        assert_eq!(
            (&at["region"]["startLine"], &at["region"]["startColumn"]),
            (&json!(7), &json!(5))
        );
        assert_eq!(result["relatedLocations"].as_array().unwrap().len(), 1);
        let flows = result["codeFlows"][0]["threadFlows"].as_array().unwrap();
        for (flow, access) in flows.iter().zip(&race.accesses) {
            let steps = flow["locations"].as_array().unwrap();
            assert_eq!(steps.len(), access.stack.len());
            for (step, frame) in steps.iter().zip(access.stack.iter().rev()) {
                let name = &step["location"]["logicalLocations"][0]["fullyQualifiedName"];
                assert_eq!(*name, json!(frame.function));
            }
        }
        assert_eq!(
            result["partialFingerprints"]["gwpRaceFingerprint/v1"],
            race.fingerprint
        );
        assert_eq!(result["baselineState"], Value::Null);
        let known = Race {
            known: true,
            ..race
        };
        let document = written(&[known], SourceRoot::default(), true);
        let result = &document["runs"][0]["results"][0];
        assert_eq!(
            (&result["baselineState"], &result["level"]),
            (&json!("unchanged"), &json!("note"))
        );
        let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(*uri, "file:///src/worker.c");
    }
}

//! The JSON Schema of `inspect --json`, made of the types that are written.

use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::block_map::BlockMapFunctionLine;
use super::listed::SCHEMA;
use super::module::json::ModuleLine;
use super::pc_section::EntryLine;
use super::probes::ProbeLine;
use super::small_tables::{FaultLine, PointLine, StackSizeLine};
use super::stack_map::{MapLine, RecordLine};

/// A line of `gwp-race inspect --json`. Addresses are link-time addresses (of object files those that their sections are given here), sizes are in bytes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "written by parts, each by its own module")]
struct Inspection<'data> {
    /// Counts incompatible changes.
    schema: u32,
    #[serde(flatten)]
    line: Line<'data>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "as above")]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line<'data> {
    /// A file, a member of an archive or a module of a process.
    Module(ModuleLine<'data>),
    /// With `--list`: the basic blocks of a function.
    BlockMapFunction(BlockMapFunctionLine<'data>),
    /// With `--list`: a stack map; its records follow.
    StackMap(MapLine<'data>),
    /// With `--list`: a record of a stack map.
    StackMapRecord(RecordLine<'data>),
    /// With `--list`: the size of a function's frame.
    StackSize(StackSizeLine<'data>),
    /// With `--list`: an instruction that may fault.
    Fault(FaultLine<'data>),
    /// With `--list`: a point of coverage.
    CoveragePoint(PointLine<'data>),
    /// With `--list`: a pseudo probe.
    PseudoProbe(ProbeLine<'data>),
    /// With `--list`: an entry of a section that the user has described.
    PcSectionEntry(EntryLine<'data>),
}

fn schema() -> schemars::Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let generator = settings.into_generator();
    generator.into_root_schema_for::<Inspection<'static>>()
}

fn errors(line: &Value) -> Vec<String> {
    static VALIDATOR: LazyLock<jsonschema::Validator> =
        LazyLock::new(|| jsonschema::validator_for(schema().as_value()).unwrap());
    let errors = VALIDATOR.iter_errors(line);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// A line that `inspect --json` has written, which follows the schema.
pub(super) fn parsed(line: &str) -> Value {
    let line = serde_json::from_str(line).unwrap();
    let errors = errors(&line);
    assert!(errors.is_empty(), "{errors:#?}: {line}");
    line
}

/// Check that the schema in the documentation is that of the code (`UPDATE_DOCS=1` writes it), and that it refuses what is not written: all that other tests read of `inspect` is read by
/// [`parsed`].
#[test]
fn inspect_json_follows_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/inspect.schema.json");
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let documented = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        documented == text,
        "UPDATE_DOCS=1 cargo test -p gwp-race --lib inspect_json_follows"
    );
    let right = format!(
        "{{\"type\":\"stack-size\",\"schema\":{SCHEMA},\"file\":\"a\",\"address\":1,\"symbol\":null,\"size\":8}}"
    );
    let right = parsed(&right);
    for (field, value) in [
        ("type", "song".into()),
        ("schema", Value::Null),
        ("address", "0x1".into()),
    ] {
        let mut wrong = right.clone();
        wrong[field] = value;
        assert!(!errors(&wrong).is_empty(), "{wrong}");
    }
    let mut wrong = right;
    wrong.as_object_mut().unwrap().remove("size");
    assert!(!errors(&wrong).is_empty(), "{wrong}");
}

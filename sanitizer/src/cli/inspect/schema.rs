//! The JSON Schema of `inspect --json`, made of the types that are written.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde_json::Value;

use super::block_map::BlockMapFunctionLine;
use super::listed::SCHEMA;
use super::module::json::ModuleLine;
use super::pc_section::EntryLine;
use super::probes::ProbeLine;
use super::small_tables::{FaultLine, PointLine, StackSizeLine};
use super::stack_map::{MapLine, RecordLine};
use crate::report::schema::{self, assert_documented, schema_of};

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

fn errors(line: &Value) -> Vec<String> {
    static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        jsonschema::validator_for(schema_of::<Inspection<'static>>().as_value()).unwrap()
    });
    schema::errors(&VALIDATOR, line)
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
    assert_documented(&schema_of::<Inspection<'static>>(), "inspect.schema.json");
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

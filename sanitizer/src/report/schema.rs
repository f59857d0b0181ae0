//! Schemas of JSON: made of the types that are written, and kept in `docs`. For tests.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::Value;

/// That of a type as it is written.
pub(crate) fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

/// Fails where the file of this name in `docs` has another schema; with `UPDATE_DOCS` in the environment it is written.
pub(crate) fn assert_documented(schema: &Schema, name: &str) {
    let path = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        documented == text,
        "UPDATE_DOCS=1 cargo test -p gwp-race --lib json_follows"
    );
}

/// Where a line does not follow a schema, and how.
pub(crate) fn errors(validator: &jsonschema::Validator, line: &Value) -> Vec<String> {
    let errors = validator.iter_errors(line);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

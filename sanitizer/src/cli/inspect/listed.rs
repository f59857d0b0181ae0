//! JSON written as it is made, so that a list takes no memory that grows with it.

use std::cell::Cell;
use std::io::{self, Write};

use serde::{Serialize, Serializer};

use crate::report::clean::write_json;

/// The version of the JSON form, which counts its incompatible changes. The form is a contract with users (`docs/inspect.schema.json`).
pub(super) const SCHEMA: u32 = 1;

/// A list whose elements are made while it is written. It can be written once; then it is empty.
pub(super) struct Listed<'a, T>(Cell<Option<Box<dyn Iterator<Item = T> + 'a>>>);

impl<'a, T> Listed<'a, T> {
    pub(super) fn new(elements: impl Iterator<Item = T> + 'a) -> Self {
        Self(Cell::new(Some(Box::new(elements))))
    }
}

impl<T: Serialize> Serialize for Listed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

#[cfg(test)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Listed<'_, T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Vec::<T>::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<T>::json_schema(generator)
    }
}

/// A line with what all lines have.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: u32,
    #[serde(flatten)]
    content: &'a T,
}

/// Writes a line of this kind and ends it.
///
/// # Errors
/// As `out`.
pub(super) fn write_line(
    kind: &'static str,
    content: &impl Serialize,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    let line = Line {
        kind,
        schema: SCHEMA,
        content,
    };
    write_json(&line, &mut out)?;
    writeln!(out)
}

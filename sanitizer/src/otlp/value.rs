//! Attributes as OTLP has them in JSON: whole numbers are texts, as for all of Protocol Buffers.

use serde_json::{Value, json};

use crate::report::clean::clean;

/// The longest text of an attribute, bytes: names of functions are chosen by others.
const LONGEST: usize = 1024;

/// Attributes, of which those are left out that have nothing to tell.
#[derive(Default)]
pub(super) struct Attributes(Vec<Value>);

impl Attributes {
    /// Adds a text, unless it is empty.
    pub(super) fn text(mut self, key: &str, text: &str) -> Self {
        if !text.is_empty() {
            self.push(key, json!({ "stringValue": shown(text) }));
        }
        self
    }

    /// Adds a whole number, if there is one.
    pub(super) fn number(mut self, key: &str, number: Option<u64>) -> Self {
        if let Some(number) = number {
            self.push(key, json!({ "intValue": number.to_string() }));
        }
        self
    }

    fn push(&mut self, key: &str, value: Value) {
        self.0.push(json!({ "key": key, "value": value }));
    }

    pub(super) fn json(self) -> Value {
        Value::Array(self.0)
    }
}

/// A text in one line of what is seen, and its beginning where it is long.
pub(super) fn shown(text: &str) -> String {
    let mut text = clean(text).into_owned();
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// Who says it.
pub(super) fn scope() -> Value {
    json!({ "name": "gwp-race", "version": env!("CARGO_PKG_VERSION") })
}

/// Of whom it is told: gwp-race on a machine.
pub(super) fn resource(host: &str) -> Attributes {
    Attributes::default()
        .text("service.name", "gwp-race")
        .text("service.version", env!("CARGO_PKG_VERSION"))
        .text("host.name", host)
}

/// A time in milliseconds as nanoseconds.
pub(super) fn nanoseconds(millis: i64) -> String {
    (i128::from(millis) * 1_000_000).to_string()
}

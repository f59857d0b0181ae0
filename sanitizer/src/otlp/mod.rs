//! What a collector of OpenTelemetry is told: an [event](event()) a race of a build, and [figures](metrics()); and telling it, by OTLP/HTTP in JSON (<https://opentelemetry.io/docs/specs/otlp/>), which takes no more than the client that is there.
//!
//! Names are those of the semantic conventions (<https://opentelemetry.io/docs/specs/semconv/>) where these have one, and begin with `gwp_race.` where not.

mod answer;
mod event;
mod exporter;
mod metrics;
#[cfg(test)]
mod tests;
mod value;

pub use answer::Outcome;
pub use event::{EVENT, event, events, is_event};
pub use exporter::Exporter;
pub use metrics::metrics;

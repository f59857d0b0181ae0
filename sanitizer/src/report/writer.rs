//! Writes races as they are found and the summary at the end, as text or as JSON lines.

use std::io::{self, Write};

use serde::Serialize;

use super::clean::to_json;
use super::model::{Race, SCHEMA};
use super::summary::{Summary, advice, closing_line, stats_text, unused_lines};
use super::text::race_text;

/// A report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report to {path}: {source}; {}", self.mend())]
pub struct WriteError {
    /// The file, or a name such as "standard error".
    pub path: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl WriteError {
    fn mend(&self) -> &'static str {
        match self.source.kind() {
            io::ErrorKind::BrokenPipe => "who reads it has ended: name a file with -o",
            _ => "make room there, or name another file with -o",
        }
    }

    /// Nobody reads any more: a closed pipe or a closed standard error. For standard error that is
    /// the user's own wish.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.source.kind() == io::ErrorKind::BrokenPipe
            || self.source.raw_os_error() == Some(libc::EBADF)
    }
}

/// A form of report. Each call writes everything and flushes.
pub trait ReportWriter: Send {
    /// Writes one race.
    fn race(&mut self, race: &Race) -> Result<(), WriteError>;
    /// Writes the summary, which comes last.
    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError>;
    /// Ends what has no summary, as of a run that was killed: only a form that is one whole has anything to write.
    fn without_summary(&mut self) -> Result<(), WriteError> {
        Ok(())
    }
    /// Takes the races that are not written yet: of a form that is one whole, all until the summary.
    fn take_unwritten(&mut self) -> Vec<Race> {
        Vec::new()
    }
}

/// Where reports are written.
pub(super) struct Output {
    out: Box<dyn Write + Send>,
    path: String,
}

impl Output {
    /// Writes to `out`, which errors call `path`.
    pub(super) fn new(out: Box<dyn Write + Send>, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { out, path }
    }

    /// What has become of a report that could not be put together.
    pub(super) fn failed(
        &self,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> WriteError {
        WriteError {
            path: self.path.clone(),
            source: io::Error::other(error),
        }
    }

    /// One write for each report, so that the target's own output does not get in between.
    pub(super) fn write(&mut self, text: &str) -> Result<(), WriteError> {
        self.out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush())
            .map_err(|source| WriteError {
                path: self.path.clone(),
                source,
            })
    }
}

/// Reports for people, in ThreadSanitizer's shape.
pub struct TextWriter {
    output: Output,
    stats: bool,
    /// Others write there as well.
    shared: bool,
}

impl TextWriter {
    /// Writes to `out`, which errors call `path`. With `stats` the summary has all figures.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, path: impl Into<String>, stats: bool) -> Self {
        Self {
            output: Output::new(out, path),
            stats,
            shared: false,
        }
    }

    /// The program's output goes there, too, and need not end with a line: the summary is set apart by an
    /// empty one.
    #[must_use]
    pub const fn beside_output(mut self) -> Self {
        self.shared = true;
        self
    }
}

impl ReportWriter for TextWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        self.output.write(&race_text(race))
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError> {
        let mut text = String::new();
        if self.shared {
            text.push('\n');
        }
        if self.stats {
            text.push_str(&stats_text(summary));
        }
        text.push_str(&unused_lines(summary));
        text.push_str(&closing_line(summary));
        text.push_str(&advice(summary));
        self.output.write(&text)
    }
}

/// One JSON object a line: races, then the summary.
pub struct JsonWriter {
    output: Output,
}

impl JsonWriter {
    /// Writes to `out`, which errors call `path`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, path: impl Into<String>) -> Self {
        Self {
            output: Output::new(out, path),
        }
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), WriteError> {
        let mut text = to_json(line).map_err(|error| self.output.failed(error))?;
        text.push('\n');
        self.output.write(&text)
    }
}

/// A race as a line of JSON, without its end.
///
/// # Errors
/// None is known.
pub fn race_record(race: &Race) -> serde_json::Result<String> {
    to_json(&Line::Race(race))
}

/// A line of reports in JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    /// A data race.
    Race(&'a Race),
    /// What was done until the end of watching.
    Summary(Versioned<'a>),
}

/// A summary with the version of its form.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Versioned<'a> {
    /// Counts incompatible changes.
    schema: u32,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl ReportWriter for JsonWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        self.line(&Line::Race(race))
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.line(&Line::Summary(Versioned {
            schema: SCHEMA,
            summary,
        }))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Something to write to, and what was written.
    pub fn kept() -> (Box<dyn Write + Send>, impl Fn() -> String) {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Kept(Arc::clone(&bytes));
        let read = move || String::from_utf8(bytes.lock().unwrap().clone()).unwrap();
        (Box::new(kept), read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        sample,
        schema::{assert_documented, errors, schema_of},
    };

    /// Check that the schema in the documentation is that of the code (`UPDATE_DOCS=1` writes it), and that what is written follows it.
    #[test]
    fn json_follows_the_schema() {
        let schema = schema_of::<Line<'static>>();
        assert_documented(&schema, "report.schema.json");
        let validator = jsonschema::validator_for(schema.as_value()).unwrap();
        let (out, written) = testing::kept();
        let mut writer = JsonWriter::new(out, "test");
        writer.race(&sample::race()).unwrap();
        writer.summary(&Summary::default()).unwrap();
        let lines: Vec<serde_json::Value> = (written().lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        for line in &lines {
            let errors = errors(&validator, line);
            assert!(errors.is_empty() && line["schema"] == SCHEMA, "{errors:#?}");
        }
        let mut wrong = lines[0].clone();
        wrong["accesses"][0]["kind"] = "song".into();
        assert!(!validator.is_valid(&wrong));
    }
}

//! Writes races as they are found and the summary at the end, as text or as JSON lines.

use std::io::{self, Write};

use serde::Serialize;

use super::clean::to_json;
use super::model::Race;
use super::summary::{Summary, closing_line, stats_text};
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
}

struct Output {
    out: Box<dyn Write + Send>,
    path: String,
}

impl Output {
    /// One write for each report, so that the target's own output does not get in between.
    fn write(&mut self, text: &str) -> Result<(), WriteError> {
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
            output: Output {
                out,
                path: path.into(),
            },
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
        text.push_str(&closing_line(summary));
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
            output: Output {
                out,
                path: path.into(),
            },
        }
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), WriteError> {
        let mut text = to_json(line).map_err(|error| WriteError {
            path: self.output.path.clone(),
            source: io::Error::other(error),
        })?;
        text.push('\n');
        self.output.write(&text)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    Race(&'a Race),
    Summary(&'a Summary),
}

impl ReportWriter for JsonWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        self.line(&Line::Race(race))
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.line(&Line::Summary(summary))
    }
}

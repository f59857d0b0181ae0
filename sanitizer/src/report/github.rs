//! Races as annotations of a run of GitHub Actions: workflow commands, which the runner takes from the output of a step ("Workflow commands for
//! GitHub Actions", "Setting an error message").

use std::fmt::Write as _;
use std::io::Write;

use super::model::Race;
use super::own_code::own_place;
use super::source_root::SourceRoot;
use super::summary::{Summary, advice, closing_line};
use super::text::race_text;
use super::words::sentence;
use super::writer::{Output, ReportWriter, WriteError};

/// Writes an annotation a race, at the stalled access; the whole report is its text.
pub struct GithubWriter {
    output: Output,
    root: SourceRoot,
}

impl GithubWriter {
    /// Writes to `out`, which errors call `path`. Files below `root` are named from there.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, path: impl Into<String>, root: SourceRoot) -> Self {
        Self {
            output: Output::new(out, path),
            root,
        }
    }
}

impl ReportWriter for GithubWriter {
    fn race(&mut self, race: &Race) -> Result<(), WriteError> {
        // The runner looks for commands at the beginnings of lines.
        self.output.write(&command(race, &self.root))
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), WriteError> {
        let said = closing_line(summary) + &advice(summary);
        let text = format!("::notice title=gwp-race::{}\n", data(said.trim_end()));
        self.output.write(&text)
    }
}

fn command(race: &Race, root: &SourceRoot) -> String {
    let (kind, title) = match race.known {
        true => ("notice", "known data race"),
        false => ("error", "data race"),
    };
    let mut text = format!("::{kind} ");
    if let Some(frame) = own_place(race.stalled())
        && let Some(file) = &frame.file
    {
        let _ = write!(text, "file={}", property(&root.relative(file)));
        for (name, number) in [("line", frame.line), ("col", frame.line.and(frame.column))] {
            if let Some(number) = number {
                let _ = write!(text, ",{name}={number}");
            }
        }
        text.push(',');
    }
    let report = race_text(&Race {
        known: false,
        ..race.clone()
    });
    let message = format!("{}\n{}", sentence(race), report.trim_end());
    let _ = writeln!(text, "title=gwp-race%3A {title}::{}", data(&message));
    text
}

/// Text of a command, which has to be one line.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Check that a race is one line, at a file that is named from the root, and that what its names hold ends no property and begins no command.
    #[test]
    fn commands() {
        let root = SourceRoot::new("/src");
        let mut race = sample::race();
        let text = command(&race, &root);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(
            text.starts_with(
                "::error file=worker.c,line=7,col=5,title=gwp-race%3A data race::Data race"
            ),
            "{text}"
        );
        race.known = true;
        race.accesses[0].stack[0].file = Some("/src/a,b:c\n::error::%.c".to_owned());
        let text = command(&race, &root);
        let name = "::notice file=a%2Cb%3Ac%0A%3A%3Aerror%3A%3A%25.c,line=7,";
        assert!(text.starts_with(name), "{text}");
        assert_eq!(text.matches('\n').count(), 1);
    }
}

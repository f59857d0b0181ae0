//! The forms of reports.

use std::io::Write;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::kernel::rights::as_caller;
use crate::report::{
    DescriptorError, GithubWriter, HtmlWriter, JsonWriter, ReportWriter, SarifWriter, SharedFile,
    SourceMap, SourceRoot, TextWriter, TsanWriter, is_own_descriptor, open_descriptor, open_output,
};

/// Forms of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, in ThreadSanitizer's shape.
    Text,
    /// One JSON object a line.
    Json,
    /// One page for a browser, which needs nothing else; written at the end.
    Html,
    /// SARIF 2.1.0, for code hosts and editors; one document, written at the end.
    Sarif,
    /// Annotations of a run of GitHub Actions.
    Github,
    /// The literal words of ThreadSanitizer, for tools that look for those.
    Tsan,
}

/// In which form, and what is to be known for it.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// The form.
    pub format: Format,
    /// From where source files are named.
    pub source_root: Option<&'a Path>,
    /// Where they are on this machine.
    pub source_map: &'a SourceMap,
    /// All figures are wanted.
    pub stats: bool,
    /// Races of an earlier run are known.
    pub has_baseline: bool,
}

impl Form<'_> {
    /// The form for people.
    #[must_use]
    pub const fn as_text(self) -> Self {
        Self {
            format: Format::Text,
            ..self
        }
    }

    /// Reports are written as they come; else the whole is one document.
    #[must_use]
    pub const fn is_document(self) -> bool {
        matches!(self.format, Format::Html | Format::Sarif)
    }

    /// Known races and the end belong into it, however little the user wants to be told: a program reads it, or it is one whole.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        self.is_document() || matches!(self.format, Format::Json)
    }

    /// Where reports go if nobody says so, unless that is standard error: programs that start tests under ThreadSanitizer tell it by its options.
    #[must_use]
    pub fn usual_output(self) -> Option<PathBuf> {
        let options = std::env::var("TSAN_OPTIONS").ok();
        let path = options.as_deref().and_then(log_path);
        let path = path.filter(|_| self.format == Format::Tsan)?;
        match &*path {
            "stderr" => None,
            "stdout" => Some(PathBuf::from("-")),
            path => Some(PathBuf::from(format!("{path}.{}", std::process::id()))),
        }
    }

    /// Writes to a file that the user names, which can be exchanged, or to standard output (`-`); `beside` the output of the program that is watched, where that is one's own descriptor.
    ///
    /// # Errors
    /// Fails when it cannot be opened.
    pub fn write_to(
        self,
        path: &Path,
        beside: bool,
    ) -> anyhow::Result<(Box<dyn ReportWriter>, SharedFile)> {
        let file = SharedFile::new(as_caller(|| open_output(path))??);
        let name = if path.as_os_str() == "-" {
            "standard output".to_owned()
        } else {
            path.display().to_string()
        };
        let out = Box::new(file.clone());
        let writer = self.writer(out, &name, beside && is_own_descriptor(path));
        Ok((writer, file))
    }

    /// Writes to a descriptor that gwp-race was started with; `beside` the output of the program that is watched, where that has it as well.
    ///
    /// # Errors
    /// Fails when it cannot be written to.
    pub fn write_to_descriptor(
        self,
        number: RawFd,
        beside: bool,
    ) -> Result<Box<dyn ReportWriter>, DescriptorError> {
        let file = Box::new(open_descriptor(number)?);
        let name = format!("descriptor {number}");
        Ok(self.writer(file, &name, beside && number <= 2))
    }

    /// Writes to `out`, which errors call `name`; `beside` the output of the program that is watched, or alone.
    #[must_use]
    pub fn writer(
        self,
        out: Box<dyn Write + Send>,
        name: &str,
        beside: bool,
    ) -> Box<dyn ReportWriter> {
        let root = || {
            let root = self.source_root;
            root.map_or_else(SourceRoot::usual, SourceRoot::absolute)
                .mapped(self.source_map)
        };
        match self.format {
            Format::Text => {
                let text = TextWriter::new(out, name, self.stats);
                Box::new(if beside { text.beside_output() } else { text })
            }
            Format::Json => Box::new(JsonWriter::new(out, name)),
            Format::Html => Box::new(HtmlWriter::new(out, name, self.has_baseline)),
            Format::Sarif => Box::new(SarifWriter::new(out, name, root(), self.has_baseline)),
            Format::Github => Box::new(GithubWriter::new(out, name, root())),
            Format::Tsan => Box::new(TsanWriter::new(out, name)),
        }
    }
}

/// The value of `log_path` among the options of a sanitizer (compiler-rt, `lib/sanitizer_common/sanitizer_flag_parser.cpp`): names and values, which may be in
/// quotes, with spaces, commas or colons between.
fn log_path(options: &str) -> Option<String> {
    let is_between = |c: char| matches!(c, ' ' | ',' | ':' | '\n' | '\t' | '\r');
    let mut rest = options.trim_start_matches(is_between);
    let mut path = None;
    while let Some((name, after)) = rest.split_once('=') {
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => {
                let inner = after.get(1..).unwrap_or_default();
                let (value, after) = inner.split_once(quote)?;
                rest = after;
                value
            }
            None => {
                let end = after.find(is_between).unwrap_or(after.len());
                let (value, after) = after.split_at(end);
                rest = after;
                value
            }
        };
        rest = rest.trim_start_matches(is_between);
        if name == "log_path" {
            path = Some(value.to_owned());
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the path is found as ThreadSanitizer finds it: the last one, in quotes or without, wherever it stands.
    #[test]
    fn options_of_sanitizers() {
        for (options, path) in [
            ("", None),
            ("exitcode=0", None),
            ("log_path", None),
            ("log_path=/tmp/a", Some("/tmp/a")),
            ("exitcode=0:log_path=/tmp/a:halt_on_error=1", Some("/tmp/a")),
            (" log_path='/tmp/a b:c' x=1", Some("/tmp/a b:c")),
            ("log_path=\"/tmp/a\",log_path=/tmp/b", Some("/tmp/b")),
            ("log_path='/tmp/a", None),
        ] {
            assert_eq!(log_path(options).as_deref(), path, "{options}");
        }
    }
}

//! Reading what `--format json` has written.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::model::{Race, SCHEMA};
use super::summary::Summary;
use crate::kernel::named;

/// The longest file. A race takes some 10 kB.
const LONGEST: u64 = 256 << 20;

/// A line.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Record {
    /// A race.
    Race(Box<Race>),
    /// The end of a run.
    Summary(Box<Summary>),
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// It could not be read.
    #[error("cannot read {path}: {source}; name a file that --format json -o FILE has written")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said, or what it is.
        source: io::Error,
    },
    /// A line is something else.
    #[error(
        "{path}:{line}: this is no record of gwp-race ({source}); name a file that --format json -o FILE has written"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It was written by a gwp-race with another form of JSON.
    #[error(
        "{path}:{line}: this record has the form {schema}, and this gwp-race reads the form {SCHEMA}; read it with the one that has written it"
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Its form.
        schema: u32,
    },
}

/// What is in a file.
#[derive(Debug, Default)]
pub struct Records {
    /// Its whole lines.
    pub records: Vec<Record>,
    /// The last line has no end: whoever wrote it was killed, or the disk was full.
    pub is_cut: bool,
}

/// Which form a line has.
#[derive(Deserialize)]
struct Form {
    schema: Option<u32>,
}

/// Reads a file.
///
/// # Errors
/// Says what is wrong with it, and where.
pub fn read_records(path: &Path) -> Result<Records, RecordsError> {
    let text = named::read_text_within(path, LONGEST).map_err(|source| RecordsError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse_records(&text, path)
}

/// Reads a file's text; `path` is for error messages.
///
/// # Errors
/// Says what is wrong with it, and where.
pub fn parse_records(text: &str, path: &Path) -> Result<Records, RecordsError> {
    let mut read = Records::default();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = || (path.to_owned(), index + 1);
        let form: Result<Form, _> = serde_json::from_str(line);
        if let Ok(Form {
            schema: Some(schema),
        }) = form
            && schema != SCHEMA
        {
            let (path, line) = place();
            return Err(RecordsError::OtherVersion { path, line, schema });
        }
        match serde_json::from_str(line) {
            Ok(record) => read.records.push(record),
            Err(error) if error.is_eof() && !line.ends_with('\n') => read.is_cut = true,
            Err(source) => {
                let (path, line) = place();
                return Err(RecordsError::Foreign { path, line, source });
            }
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::writer::testing::kept;
    use crate::report::{JsonWriter, ReportWriter as _};

    fn written() -> String {
        let (out, written) = kept();
        let mut writer = JsonWriter::new(out, "test");
        writer.race(&sample::race()).unwrap();
        writer.summary(&Summary::default()).unwrap();
        written()
    }

    /// Check that what was written is read, and that a line without an end is told and costs nothing else.
    #[test]
    fn what_was_written_is_read() {
        let text = written();
        let path = Path::new("races.json");
        let read = parse_records(&text, path).unwrap();
        let [Record::Race(race), Record::Summary(summary)] = &read.records[..] else {
            panic!("{read:?}");
        };
        assert_eq!((**race).clone(), sample::race());
        assert_eq!(**summary, Summary::default());
        assert!(!read.is_cut);
        let cut = text.get(..text.len() - 20).unwrap();
        let read = parse_records(cut, path).unwrap();
        assert!(read.is_cut && read.records.len() == 1);
        assert!(parse_records("", path).unwrap().records.is_empty());
    }

    /// Check that errors tell the line, and what to do.
    #[test]
    fn errors_name_the_line() {
        let path = Path::new("races.json");
        let foreign = format!("{}{{\"type\":\"song\"}}\n", written());
        let error = parse_records(&foreign, path).unwrap_err().to_string();
        assert!(
            error.starts_with("races.json:3: this is no record"),
            "{error}"
        );
        let newer = written().replacen("\"schema\":1", "\"schema\":9", 1);
        let error = parse_records(&newer, path).unwrap_err().to_string();
        assert!(
            error.starts_with("races.json:1: this record has the form 9"),
            "{error}"
        );
        let error = read_records(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("--format json"), "{error}");
    }
}

//! Commands that write what they find to standard output.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde::Serialize;

use crate::report::clean::write_json;

/// Writes to standard output; the exit code says whether that is what was wanted.
///
/// # Errors
/// As `write`, but for a reader that has read enough (`gwp-race inspect --list | head`).
pub fn written(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<bool>,
) -> anyhow::Result<ExitCode> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = write(&mut out).and_then(|good| Ok(out.flush().map(|()| good)?));
    match done {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

/// Writes a value as a line of JSON, at once: whoever else writes to the same place does not get in between.
///
/// # Errors
/// `out` does not take it: that of a reader that has read enough is known as such.
pub fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = Vec::new();
    write_json(value, &mut line)?;
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(())
}

/// Whether nobody reads any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    (error.downcast_ref::<io::Error>()).is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written, by calls.
    #[derive(Default)]
    struct Calls(Vec<Vec<u8>>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Check that a line is written by one call, with its end: where others write as well, it would be torn else.
    #[test]
    fn lines_are_written_at_once() {
        let mut calls = Calls::default();
        for value in [vec!["a\u{1b}b", "c"], vec![]] {
            write_json_line(&mut calls, &value).unwrap();
        }
        let lines = [&b"[\"a\\u001bb\",\"c\"]\n"[..], b"[]\n"];
        assert_eq!(calls.0, lines);
    }
}

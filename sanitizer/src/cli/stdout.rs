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

/// Writes a value as a line of JSON.
///
/// # Errors
/// `out` does not take it: that of a reader that has read enough is known as such.
pub fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    write_json(value, &mut *out).map_err(|error| match error.io_error_kind() {
        Some(kind) => anyhow::Error::from(io::Error::from(kind)),
        None => error.into(),
    })?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Whether nobody reads any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    (error.downcast_ref::<io::Error>()).is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

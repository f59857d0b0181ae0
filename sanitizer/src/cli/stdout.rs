//! Commands that write what they find to standard output.

use std::{
    io::{self, Write},
    process::ExitCode,
};

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

/// Whether nobody reads any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    (error.downcast_ref::<io::Error>()).is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

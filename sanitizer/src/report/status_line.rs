//! The line on a terminal that tells how watching goes, and what is written to standard error beside it.
//!
//! The line is drawn with the cursor back at its beginning, so that whoever else writes to the terminal writes over it. Whatever gwp-race itself says erases it
//! first, under the lock of standard error.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::record_file::write_whole;

/// "Erase in line": from the cursor to the end (ECMA-48, EL).
const ERASE: &[u8] = b"\x1b[K";

/// Something stands there. Only touched under the lock of standard error.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws the line anew, cut to so many columns. The text has no control characters.
pub fn draw(text: &str, columns: usize) {
    let mut out = io::stderr().lock();
    let text: String = text.chars().take(columns.saturating_sub(1)).collect();
    let mut line = format!("\r{text}").into_bytes();
    line.extend_from_slice(ERASE);
    line.push(b'\r');
    // A terminal that is gone is no failure.
    if out.write_all(&line).is_ok() {
        IS_DRAWN.store(true, Relaxed);
    }
}

/// Erases the line, where there is one.
pub fn erase() {
    erase_within(&mut io::stderr().lock());
}

/// Erases it for whoever holds the lock of standard error.
fn erase_within(out: &mut io::StderrLock<'_>) {
    if IS_DRAWN.swap(false, Relaxed) {
        let _ = out.write_all(ERASE);
    }
}

/// Writes a text for whoever may hold the lock of standard error himself, and has no time to give it back: who has panicked.
pub fn last_words(text: &str) {
    let mut bytes = Vec::new();
    if IS_DRAWN.swap(false, Relaxed) {
        bytes.extend_from_slice(ERASE);
    }
    bytes.extend_from_slice(text.as_bytes());
    // There is nobody to tell where that is closed.
    let _ = nix::unistd::write(io::stderr(), &bytes);
}

/// Standard error for records and messages, which erase the line. Each call of [`Write::write`] is one of them, as is what is formatted at once (`writeln!`): the lock is held through all pieces of it, so that no other thread's words get in
/// between, and as a rule it is one write(2), so that no other process's do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let mut out = io::stderr().lock();
        erase_within(&mut out);
        write_whole(&mut out, record, &mut 0).map(|()| record.len())
    }

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! A file of records, each written whole or not at all.
//!
//! Reports are read while they are written (`tail -f`, `jq`), so they are not kept in a file beside
//! and renamed when all is over. Instead a record that could not be written to its end, because the
//! disk is full, is cut off again: what is in the file is whole.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait for a reader that has not read yet, where the descriptor itself does not wait.
const READER: Duration = Duration::from_millis(10);

/// See the module. Each call of [`Write::write`] is a record.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    /// Pipes and devices cannot be cut.
    regular: bool,
}

impl RecordFile {
    /// Appends to a file that was opened for appending; `regular`: as opposed to pipes and devices.
    pub(super) const fn new(file: File, regular: bool) -> Self {
        Self { file, regular }
    }

    /// Lets everybody read it, as what is installed for all; else it is the user's alone.
    ///
    /// # Errors
    /// Fails where fchmod(2) does.
    pub fn let_all_read(&self) -> io::Result<()> {
        let mode = Permissions::from_mode(0o644);
        if self.regular {
            self.file.set_permissions(mode)?;
        }
        Ok(())
    }

    /// Cuts off what was written of a record since the file had the length `before`, unless others
    /// have written as well.
    fn cut_back(&self, before: u64, written: usize) {
        let ours = before + written as u64;
        if self.file.metadata().is_ok_and(|now| now.len() == ours) {
            // Shortening needs no room. If it fails, the record is told elsewhere all the same.
            let _ = self.file.set_len(before);
        }
    }
}

impl Write for RecordFile {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let before = if self.regular {
            Some(self.file.metadata()?.len())
        } else {
            None
        };
        let mut written = 0;
        match write_whole(&mut self.file, record, &mut written) {
            Ok(()) => Ok(record.len()),
            Err(error) => {
                if let Some(before) = before {
                    self.cut_back(before, written);
                }
                Err(error)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that can be exchanged for another one between two records.
#[derive(Clone, Debug)]
pub struct SharedFile(Arc<Mutex<RecordFile>>);

impl SharedFile {
    /// Begins with this one.
    #[must_use]
    pub fn new(file: RecordFile) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }

    /// What comes from now on is written to another one.
    pub fn exchange(&self, file: RecordFile) {
        *self.lock() = file;
    }

    /// Whether it is a file, as opposed to pipes, devices, and what gwp-race was started with.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.lock().regular
    }

    fn lock(&self) -> MutexGuard<'_, RecordFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for SharedFile {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.lock().write(record)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a record, in more than one piece if need be; `written` counts what has been.
///
/// A descriptor that is shared with others may have been switched to non-blocking by one of them: a
/// reader that is slow is waited for all the same.
pub(super) fn write_whole(
    out: &mut impl Write,
    record: &[u8],
    written: &mut usize,
) -> io::Result<()> {
    while let Some(rest) = record.get(*written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(READER),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Check that half a record is cut off, that later ones follow the last whole one, and that what
    /// others have written stays.
    #[test]
    fn half_records_are_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let open = || {
            File::options()
                .append(true)
                .create(true)
                .open(&path)
                .unwrap()
        };
        let mut file = RecordFile::new(open(), true);
        file.write_all(b"first\n").unwrap();
        // What a full disk leaves of a record.
        open().write_all(b"seco").unwrap();
        file.cut_back(6, 4);
        file.write_all(b"third\n").unwrap();
        // Somebody else's words are not ours to cut.
        open().write_all(b"foreign\n").unwrap();
        file.cut_back(12, 4);
        assert_eq!(fs::read(&path).unwrap(), b"first\nthird\nforeign\n");
    }

    /// Check that records arrive whole at a reader that is slow, through a descriptor that does not
    /// wait by itself.
    #[test]
    fn slow_readers_are_waited_for() {
        use std::io::Read as _;
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let mut file = RecordFile::new(File::from(std::os::fd::OwnedFd::from(writer)), false);
        let record = vec![b'x'; 4 << 20];
        let writing = std::thread::spawn(move || file.write_all(&record));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writing.join().unwrap().unwrap();
        assert_eq!(read.len(), 4 << 20);
    }
}

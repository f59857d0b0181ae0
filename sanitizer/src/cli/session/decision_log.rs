//! Where `--decision-log` goes. A thread of its own writes it, so that a slow or full disk delays nothing else and loses nothing else.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    time::Duration,
};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::{
    hunt::plan::log::file::{beginning, frame},
    kernel::{descriptors::own_table, limits::explained, rights::as_caller},
    report::open_output,
};

/// Frames that wait to be written, at most: of 64 KiB each, as a rule.
const MOST_WAITING: usize = 256;
/// How long the last ones may take.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// See the module.
pub struct DecisionLog {
    path: PathBuf,
    /// Nothing is added any more where there is none.
    work: Option<SyncSender<Vec<u8>>>,
    closing: oneshot::Receiver<anyhow::Result<()>>,
    failure: Option<anyhow::Error>,
}

impl DecisionLog {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// Fails when it cannot be opened.
    pub fn start(path: &Path) -> anyhow::Result<Self> {
        let file = as_caller(|| open_output(path))?
            .context("cannot write what --decision-log asks for")?;
        Self::over(Box::new(file), path)
    }

    fn over(file: Box<dyn Write + Send>, path: &Path) -> anyhow::Result<Self> {
        let (work, queue) = sync_channel(MOST_WAITING);
        let (told, closing) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let path = path.to_owned();
        let name = path.display().to_string();
        std::thread::Builder::new()
            .name("decisions".to_owned())
            .spawn(move || {
                // As the reporting thread has one.
                if let Err(error) = own_table() {
                    tracing::debug!(%error, "the thread of the decision log shares the descriptors of all");
                }
                let _ = ready.send(());
                // Nobody waits any more where it took too long.
                let _ = told.send(write(file, &queue, &name));
            })
            .map_err(|error| anyhow::anyhow!("cannot start a thread: {}", explained(&error)))?;
        let _ = is_ready.recv();
        Ok(Self {
            path,
            work: Some(work),
            closing,
            failure: None,
        })
    }

    /// Adds what the tracer of a process has told: whole records.
    pub fn add(&mut self, process: u32, records: &[u8]) {
        let Some(work) = &self.work else {
            return;
        };
        let why = match frame(process, records).map(|frame| work.try_send(frame)) {
            Some(Ok(())) => return,
            // It has told why itself.
            Some(Err(TrySendError::Disconnected(_))) => None,
            Some(Err(TrySendError::Full(_))) => Some("its file takes less than there is to tell"),
            None => Some("a tracer tells what has no end"),
        };
        self.work = None;
        if let Some(why) = why {
            let path = self.path.display();
            let failure = anyhow::anyhow!(
                "the decision log in {path} is cut: {why}; name a file on another disk"
            );
            tracing::error!("{failure}");
            self.failure = Some(failure);
        }
    }

    /// Waits until all is written, but not for long; the first failure, which has been told.
    pub async fn finish(mut self) -> Option<anyhow::Error> {
        drop(self.work.take());
        let path = self.path.display();
        let closing = match tokio::time::timeout(LAST_WORDS, self.closing).await {
            Ok(Ok(closing)) => closing.err(),
            // It has panicked, or whoever reads takes his time.
            _ => {
                let failure = anyhow::anyhow!(
                    "the decision log in {path} is cut: its file takes nothing more"
                );
                tracing::error!("{failure}");
                Some(failure)
            }
        };
        self.failure.or(closing)
    }
}

/// Writes what comes, each frame whole or not at all, until one is not taken.
fn write(mut file: Box<dyn Write>, queue: &Receiver<Vec<u8>>, name: &str) -> anyhow::Result<()> {
    let first = std::iter::once(beginning().into_bytes());
    for frame in first.chain(queue) {
        let written = file.write_all(&frame).with_context(|| {
            format!("the decision log in {name} is cut, since it cannot be written; free some space, or name another file")
        });
        if let Err(failure) = &written {
            tracing::error!("{failure:#}");
            return written;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;
    use crate::hunt::plan::log::{
        Record,
        file::{Reader, encode},
    };

    fn finished(log: DecisionLog) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let failure = runtime.block_on(log.finish());
        failure.map(|failure| format!("{failure:#}"))
    }

    fn read(path: &Path) -> Vec<(u32, Record)> {
        let file = fs::read(path).unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        let records = (&mut reader).map(Result::unwrap).collect();
        assert!(!reader.is_cut());
        records
    }

    /// Check that what several tracers tell is in the file, each with its process.
    #[test]
    fn what_is_told_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        let mut log = DecisionLog::start(&path).unwrap();
        let records = [
            Record::Begun { seed: 1, priors: 2 },
            Record::Lost,
            Record::Ended,
        ];
        let mut expected = Vec::new();
        for (process, record) in (0..100).zip(records.iter().cycle()) {
            log.add(process, &encode(record).unwrap());
            expected.push((process, record.clone()));
        }
        assert_eq!(finished(log), None);
        assert_eq!(read(&path), expected);
        assert!(DecisionLog::start(scratch.path()).is_err());
    }

    /// Check that a disk which is full is told once, with the file, and that nobody waits for one that takes nothing.
    #[test]
    fn full_disks_are_told() {
        let record = encode(&Record::Ended).unwrap();
        let path = Path::new("/dev/full");
        let mut log = DecisionLog::start(path).unwrap();
        for _ in 0..3 {
            log.add(1, &record);
        }
        let failure = finished(log).unwrap();
        assert!(
            failure.contains("/dev/full") && failure.contains("No space"),
            "{failure}"
        );

        /// Takes nothing as long as it is not allowed to.
        struct Slow(Receiver<()>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (allow, allowed) = std::sync::mpsc::channel();
        let mut log = DecisionLog::over(Box::new(Slow(allowed)), path).unwrap();
        for _ in 0..MOST_WAITING + 3 {
            log.add(1, &record);
        }
        drop(allow);
        let failure = finished(log).unwrap();
        assert!(failure.contains("takes less"), "{failure}");
    }
}

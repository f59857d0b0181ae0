//! Waiting for news of processes.

use std::{os::fd::OwnedFd, time::Duration};

use tokio::io::unix::AsyncFd;

use crate::{cli::fleet::discovery::Discovery, kernel::KernelError};

/// After news of processes, more of them are waited for, so that many at a time are taken in at once.
const GATHER: Duration = Duration::from_millis(20);

/// See the module.
pub struct NewsOfProcesses {
    /// None where nobody tells.
    news: Option<AsyncFd<OwnedFd>>,
    /// There are some, to be taken in then.
    due: Option<tokio::time::Instant>,
}

impl NewsOfProcesses {
    /// Those of this discovery.
    pub fn of(discovery: &Discovery) -> Result<Self, KernelError> {
        let news = discovery.news()?;
        Ok(Self { news, due: None })
    }

    /// Waits until there are some; for ever where nobody tells. May be given up at any time.
    pub async fn next(&mut self) -> std::io::Result<()> {
        let Some(news) = &self.news else {
            return std::future::pending().await;
        };
        let due = match self.due {
            Some(due) => due,
            None => {
                news.readable().await?.clear_ready();
                *self.due.insert(tokio::time::Instant::now() + GATHER)
            }
        };
        tokio::time::sleep_until(due).await;
        self.due = None;
        Ok(())
    }
}

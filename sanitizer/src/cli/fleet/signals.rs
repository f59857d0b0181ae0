//! Signals that ask for the end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// See the module.
pub struct Signals([Signal; 3]);

impl Signals {
    /// Hears them from now on.
    ///
    /// # Errors
    /// They cannot be heard.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Waits for one. May be given up at any time.
    pub async fn next(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

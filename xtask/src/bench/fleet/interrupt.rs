//! Whether somebody wants the measurement to end: what it has started is to be ended, and its files removed, first.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use nix::sys::signal::{SigHandler, Signal, signal};

static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// How soon it is heard.
const POLL: Duration = Duration::from_millis(50);

extern "C" fn note(_: libc::c_int) {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// From now on signals that ask for the end are noted, and do not end this process by themselves.
pub fn note_signals() -> Result<()> {
    for name in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler does nothing but store to an atomic variable, which may be done at any time.
        unsafe { signal(name, SigHandler::Handler(note)) }?;
    }
    Ok(())
}

/// Fails if such a signal has come.
pub fn check() -> Result<()> {
    if IS_WANTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Waits until a moment, unless such a signal comes.
pub fn wait_until(moment: Instant) -> Result<()> {
    loop {
        check()?;
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(POLL));
    }
}

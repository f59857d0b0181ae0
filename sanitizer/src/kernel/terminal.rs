//! What is known of the terminal that standard error may be.

use std::{
    fs::File,
    io::{self, IsTerminal as _},
};

/// The columns of the terminal that standard error is, where this process is in its foreground: others that write there are stopped, or disturb.
#[must_use]
pub fn columns_of_stderr() -> Option<usize> {
    const USUAL: usize = 80;
    let stderr = io::stderr();
    if !stderr.is_terminal() || nix::unistd::tcgetpgrp(&stderr) != Ok(nix::unistd::getpgrp()) {
        return None;
    }
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes a `winsize` (ioctl_tty(2)), which lives through the call.
    let result = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    // Serial lines do not tell.
    let is_told = result == 0 && size.ws_col > 0;
    Some(if is_told {
        usize::from(size.ws_col)
    } else {
        USUAL
    })
}

/// Whether this process has a controlling terminal: one that has hung up is none any more (tty(4)).
#[must_use]
pub fn is_controlled() -> bool {
    File::open("/dev/tty").is_ok()
}

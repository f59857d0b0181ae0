//! Lines that are drawn on the terminal which standard error is, and drawn over.

use crate::kernel::terminal::columns_of_stderr;
use crate::report::status_line::{draw, erase};

/// Whether standard error is a terminal on which a line can be drawn.
#[must_use]
pub fn can_draw() -> bool {
    let is_able = |terminal| terminal != "dumb";
    columns_of_stderr().is_some() && std::env::var_os("TERM").is_some_and(is_able)
}

/// Draws a line, where the terminal is still there and not another job's; or erases the one that there is.
pub fn show(text: Option<&str>) {
    match text {
        Some(text) => {
            if let Some(columns) = columns_of_stderr() {
                draw(text, columns);
            }
        }
        None => erase(),
    }
}

//! What can be asked of a session in its midst.

use std::io::Write as _;

use crate::cli::reporter::Tally;
use crate::report::status_line::Stderr;
use crate::report::{Summary, figures_text};

use super::Session;

impl Session {
    /// The figures so far, as tracers tell them each second.
    #[must_use]
    pub fn figures(&self) -> Summary {
        let Tally {
            unique,
            known,
            total,
            ..
        } = self.reporter.tally();
        Summary {
            races_unique: unique,
            races_known: known,
            races_total: total,
            ..self.summary()
        }
    }

    /// Tells all figures on standard error.
    pub fn tell_figures(&self) {
        // There is nobody to tell where that is closed.
        let _ = Stderr.write_all(figures_text(&self.figures()).as_bytes());
    }

    pub(super) fn draw_status(&self) {
        self.status.draw(&self.figures());
    }

    /// Whether reports go to a file that can be moved away.
    #[must_use]
    pub const fn can_reopen(&self) -> bool {
        self.reporter.can_reopen()
    }

    /// The report file was moved away: what comes goes to a new one of its name.
    pub fn reopen(&self) {
        self.reporter.reopen();
    }
}

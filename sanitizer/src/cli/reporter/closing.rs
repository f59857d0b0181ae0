//! What there is to say of races when all is written, and the exit code that comes of it.

use crate::cli::enough::Seen;

/// What has been found so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Different races reported that are not known.
    pub unique: u64,
    /// Different races reported that the baseline has.
    pub known: u64,
    /// All, with repeats.
    pub total: u64,
    /// Suppressed by the user's file.
    pub suppressed: u64,
}

/// What there is to say when all is written.
#[derive(Debug, Default)]
pub struct Closing {
    /// What has been found.
    pub tally: Tally,
    /// The first failure to write, which has been told.
    pub failure: Option<anyhow::Error>,
    /// How much was watched.
    pub seen: Seen,
}

impl Closing {
    /// The exit code of gwp-race itself: that of `--error-exitcode` where a race was reported, even if not to
    /// where it should have been.
    ///
    /// # Errors
    /// No race asks for that code, and something could not be written.
    pub fn exit_code(self, of_races: Option<u8>) -> anyhow::Result<Option<u8>> {
        match (of_races, self.failure) {
            (Some(code), _) if self.tally.unique > 0 => Ok(Some(code)),
            (_, Some(failure)) => Err(failure),
            (_, None) => Ok(None),
        }
    }
}

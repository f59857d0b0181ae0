//! How a tracer ends.

/// The exit code of a tracer that failed.
pub(super) const FAILED: u8 = 1;

//! Calls that fail when a test wants them to.
//!
//! What can go wrong between this process and the kernel hardly ever does. Each call of this room is
//! announced here before it is made, and in a gwp-race that is built with the feature
//! `fault-injection` a test can have any of them fail: see `plan`. Otherwise nothing is left of it.

#[cfg(any(test, feature = "fault-injection"))]
pub mod misdeed;
#[cfg(feature = "fault-injection")]
mod plan;

use super::KernelError;

/// An error in place of the call that is about to be made for `object`, if a test wants one.
///
/// # Errors
/// Only with the feature `fault-injection`.
#[inline]
pub fn before(call: &'static str, object: impl FnOnce() -> String) -> Result<(), KernelError> {
    #[cfg(feature = "fault-injection")]
    if let Err(source) = plan::next(call) {
        return Err(KernelError {
            call,
            object: object(),
            source,
        });
    }
    let _ = (call, object);
    Ok(())
}

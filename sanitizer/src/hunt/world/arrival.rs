//! Who comes in a simulated program to where a thread is waited for, and what it is about to access.

use std::time::Duration;

use crate::hunt::plan::event::AddressId;

/// A thread that has come to where one was waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The site.
    pub(super) index: usize,
    /// How long it was waited.
    pub(super) waited: Duration,
    /// What it is about to access.
    pub(super) bytes: Bytes,
}

/// What a thread that is stopped is about to access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bytes {
    /// Their address.
    pub(super) address: AddressId,
    /// It is of those that are used again and again.
    pub(super) is_of_area: bool,
    /// They have been watched since before the thread came.
    pub(super) are_watched: bool,
}

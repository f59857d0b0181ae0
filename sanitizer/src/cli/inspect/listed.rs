//! JSON written as it is made, so that a list takes no memory that grows with it.

use std::cell::Cell;
use std::io::{self, Write};

use serde::{Serialize, Serializer};

use crate::report::clean::write_json;

/// A list whose elements are made while it is written. It can be written once; then it is empty.
pub(super) struct Listed<I>(Cell<Option<I>>);

impl<I> Listed<I> {
    pub(super) const fn new(elements: I) -> Self {
        Self(Cell::new(Some(elements)))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Listed<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

/// Writes a value and ends the line.
///
/// # Errors
/// As `out`.
pub(super) fn write_line(value: &impl Serialize, mut out: &mut dyn Write) -> io::Result<()> {
    write_json(value, &mut out)?;
    writeln!(out)
}

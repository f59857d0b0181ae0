//! Where calls and jumps lead.

/// The target of a call or jump, as far as the instruction tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// This run-time address.
    To(u64),
    /// The address that stands at this run-time address, as in the global offset table.
    Through(u64),
}

/// A way out of a range of code, other than by a call or a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Where it leads; nothing where that is computed.
    pub transfer: Option<Transfer>,
    /// Taken only if a condition holds.
    pub conditional: bool,
}

//! What a walk of a stack asks of the code.

use super::module::StackSnapshot;
use super::unwind_rules::{Registers, Step};

/// What the walk needs to know of the code.
pub(super) trait Code {
    /// Goes to the caller by the tables of the module at run-time address `lookup`.
    fn step(&self, lookup: u64, registers: &Registers, stack: &StackSnapshot) -> Option<Step>;
    /// Whether a run-time address is in executable memory of a known module.
    fn is_code(&self, addr: u64) -> bool;
    /// Up to `len` bytes of code at a run-time address.
    fn bytes(&self, addr: u64, len: u64) -> Option<Vec<u8>>;
}

//! Which signal, if any, stops a thread (invariant I1).

/// `attr.sigtrap`: the gate's return value lets the kernel's own SIGTRAP through.
pub const SIGTRAP: u32 = 0;
// Any other value is the number of the signal that the gate sends by itself.

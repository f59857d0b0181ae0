//! The reach of bit instructions.

use super::*;

/// Check the reach of bit instructions against the SDM's formula, negative indices included.
#[test]
fn bit_indices_reach_beyond_the_operand() {
    assert_eq!(bit_displacement(31, 4), 0);
    assert_eq!(bit_displacement(32, 4), 4);
    assert_eq!(bit_displacement(u64::from(u32::MAX), 4), -4);
    assert_eq!(bit_displacement(u64::MAX, 8), -8);
    assert_eq!(bit_displacement(0xffef, 2), -4);
    assert_eq!(bit_displacement(130, 8), 16);
}

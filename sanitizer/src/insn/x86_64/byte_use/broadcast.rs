//! Instructions that repeat the beginning of an operand all over their result. (Intel SDM vol. 2.)

use iced_x86::Mnemonic;

/// How many bytes a broadcast repeats.
pub(super) fn broadcast(mnemonic: Mnemonic) -> Option<usize> {
    use Mnemonic as M;
    Some(match mnemonic {
        M::Vpbroadcastb => 1,
        M::Vpbroadcastw => 2,
        M::Vpbroadcastd | M::Vbroadcastss => 4,
        M::Vpbroadcastq | M::Vbroadcastsd | M::Vbroadcastf32x2 | M::Vbroadcasti32x2 => 8,
        M::Vbroadcastf128
        | M::Vbroadcasti128
        | M::Vbroadcastf32x4
        | M::Vbroadcasti32x4
        | M::Vbroadcastf64x2
        | M::Vbroadcasti64x2 => 16,
        M::Vbroadcastf32x8 | M::Vbroadcasti32x8 | M::Vbroadcastf64x4 | M::Vbroadcasti64x4 => 32,
        _ => return None,
    })
}

//! MD5, by which LLVM makes the numbers of functions from their names (`GlobalValue::getGUID`).
//!
//! Source: RFC 1321. For numbers, not for secrets.

const SHIFTS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// The number of the function of this name: the first eight bytes of the digest.
pub(super) fn function_guid(name: &[u8]) -> u64 {
    let mut message = name.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((name.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in message.as_chunks::<64>().0 {
        let mut words = [0u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        mix(&mut state, &words);
    }
    u64::from(state[1]) << 32 | u64::from(state[0])
}

fn mix(state: &mut [u32; 4], words: &[u32; 16]) {
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64usize {
        let (function, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        // RFC 1321, 3.4: the integer part of 2^32 times the sine of the step.
        let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let word = words.get(word % 16).copied().unwrap_or_default();
        let shift = (SHIFTS.get(step / 16)).and_then(|shifts| shifts.get(step % 4));
        let sum = (a.wrapping_add(function))
            .wrapping_add(constant)
            .wrapping_add(word);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(shift.copied().unwrap_or_default()));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the examples of RFC 1321, A.5, as far as eight bytes go.
    #[test]
    fn examples_of_the_standard() {
        for (text, digest) in [
            ("", 0xd41d_8cd9_8f00_b204u64),
            ("a", 0x0cc1_75b9_c0f1_b6a8),
            ("abc", 0x9001_5098_3cd2_4fb0),
            ("message digest", 0xf96b_697d_7cb7_938d),
            ("abcdefghijklmnopqrstuvwxyz", 0xc3fc_d3d7_6192_e400),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                0x57ed_f4a2_2be3_c955,
            ),
        ] {
            assert_eq!(
                function_guid(text.as_bytes()).swap_bytes(),
                digest,
                "{text}"
            );
        }
    }
}

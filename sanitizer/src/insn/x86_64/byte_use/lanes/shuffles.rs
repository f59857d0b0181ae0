//! Shuffles, blends and insertions whose pattern is in the instruction. (Intel SDM vol. 2.)

use iced_x86::{Mnemonic, OpKind};

use super::super::origins::{Origins, is_constant};
use super::Vector;

impl Vector<'_> {
    pub(super) fn shuffles(&self) -> Option<Origins> {
        use Mnemonic as M;
        let (first, last) = (self.first(), self.last());
        let immediate = self.immediate;
        match self.instruction.mnemonic() {
            M::Pshufd | M::Vpshufd => self.by_immediate(4, 16, 2),
            M::Vpermilps if is_constant(self.instruction.op_kind(2)) => self.by_immediate(4, 16, 2),
            M::Vpermilpd if is_constant(self.instruction.op_kind(2)) => self.by_immediate(8, 16, 1),
            M::Vpermq | M::Vpermpd if is_constant(self.instruction.op_kind(2)) => {
                self.by_immediate(8, 32, 2)
            }
            M::Pshuflw | M::Vpshuflw | M::Pshufhw | M::Vpshufhw => {
                let high = matches!(self.instruction.mnemonic(), M::Pshufhw | M::Vpshufhw);
                self.shuffled(|i| {
                    let (block, within) = (i / 16 * 16, i % 16);
                    if (within >= 8) != high {
                        return Some((last, i));
                    }
                    let half = within / 8 * 8;
                    let chosen = (immediate >> (within % 8 / 2 * 2)) as usize & 3;
                    Some((last, block + half + chosen * 2 + i % 2))
                })
            }
            M::Shufps | M::Vshufps => self.shuffled(|i| {
                let number = i % 16 / 4;
                let chosen = (immediate >> (2 * number)) as usize & 3;
                let operand = if number < 2 { first } else { last };
                Some((operand, i / 16 * 16 + chosen * 4 + i % 4))
            }),
            M::Shufpd | M::Vshufpd => self.shuffled(|i| {
                let number = i / 8;
                let chosen = (immediate >> number) as usize & 1;
                let operand = if number.is_multiple_of(2) {
                    first
                } else {
                    last
                };
                Some((operand, i / 16 * 16 + chosen * 8 + i % 8))
            }),
            M::Punpcklbw | M::Vpunpcklbw => self.unpacked(1, false),
            M::Punpckhbw | M::Vpunpckhbw => self.unpacked(1, true),
            M::Punpcklwd | M::Vpunpcklwd => self.unpacked(2, false),
            M::Punpckhwd | M::Vpunpckhwd => self.unpacked(2, true),
            M::Punpckldq | M::Vpunpckldq | M::Unpcklps | M::Vunpcklps => self.unpacked(4, false),
            M::Punpckhdq | M::Vpunpckhdq | M::Unpckhps | M::Vunpckhps => self.unpacked(4, true),
            M::Punpcklqdq | M::Vpunpcklqdq | M::Unpcklpd | M::Vunpcklpd => self.unpacked(8, false),
            M::Punpckhqdq | M::Vpunpckhqdq | M::Unpckhpd | M::Vunpckhpd => self.unpacked(8, true),
            M::Psrldq | M::Vpsrldq => {
                let by = immediate as usize;
                let from = u32::from(self.instruction.op_count() > 2);
                self.shuffled(|i| (i % 16 + by < 16).then_some((from, i + by)))
            }
            M::Pslldq | M::Vpslldq => {
                let by = immediate as usize;
                let from = u32::from(self.instruction.op_count() > 2);
                self.shuffled(|i| (i % 16 >= by).then(|| (from, i - by)))
            }
            M::Palignr | M::Vpalignr => {
                let by = immediate as usize;
                self.shuffled(|i| {
                    let (block, at) = (i / 16 * 16, i % 16 + by);
                    match at {
                        0..16 => Some((last, block + at)),
                        16..32 => Some((first, block + at - 16)),
                        _ => None,
                    }
                })
            }
            M::Valignd | M::Valignq => {
                let lane = if self.instruction.mnemonic() == M::Valignd {
                    4
                } else {
                    8
                };
                let by = immediate as usize * lane % self.width.max(1);
                self.shuffled(|i| {
                    let at = i + by;
                    Some(if at < self.width {
                        (last, at)
                    } else {
                        (first, at - self.width)
                    })
                })
            }
            M::Blendps | M::Vblendps | M::Vpblendd => self.blended(4, 32),
            M::Blendpd | M::Vblendpd => self.blended(8, 32),
            M::Pblendw | M::Vpblendw => self.blended(2, 16),
            M::Vperm2f128 | M::Vperm2i128 => self.shuffled(|i| {
                let control = (immediate >> (i / 16 * 4)) as usize & 0xf;
                let operand = if control & 2 == 0 { first } else { last };
                (control & 8 == 0).then_some((operand, (control & 1) * 16 + i % 16))
            }),
            M::Vshuff32x4 | M::Vshuff64x2 | M::Vshufi32x4 | M::Vshufi64x2 => {
                let blocks = self.width / 16;
                let bits = if blocks == 4 { 2 } else { 1 };
                self.shuffled(|i| {
                    let block = i / 16;
                    let chosen = (immediate >> (block * bits)) as usize & (blocks - 1);
                    let operand = if block < blocks / 2 { first } else { last };
                    Some((operand, chosen * 16 + i % 16))
                })
            }
            M::Vinsertf128
            | M::Vinserti128
            | M::Vinsertf32x4
            | M::Vinserti32x4
            | M::Vinsertf64x2
            | M::Vinserti64x2 => self.inserted(16),
            M::Vinsertf64x4 | M::Vinserti64x4 | M::Vinsertf32x8 | M::Vinserti32x8 => {
                self.inserted(32)
            }
            M::Pinsrb | M::Vpinsrb => self.inserted(1),
            M::Pinsrw | M::Vpinsrw => self.inserted(2),
            M::Pinsrd | M::Vpinsrd => self.inserted(4),
            M::Pinsrq | M::Vpinsrq => self.inserted(8),
            M::Insertps | M::Vinsertps => {
                let from = if self.instruction.op_kind(last) == OpKind::Memory {
                    0
                } else {
                    (immediate >> 6) as usize & 3
                };
                let to = (immediate >> 4) as usize & 3;
                self.shuffled(|i| {
                    if immediate >> (i / 4) & 1 != 0 {
                        None
                    } else if i / 4 == to {
                        Some((last, from * 4 + i % 4))
                    } else {
                        Some((first, i))
                    }
                })
            }
            _ => None,
        }
    }

    /// Lanes of `lane` bytes of the last operand, by an immediate, within blocks of `block` bytes.
    fn by_immediate(&self, lane: usize, block: usize, bits: usize) -> Option<Origins> {
        let per_block = block / lane;
        let choices = (1 << bits) - 1;
        self.shuffled(|i| {
            let number = i % block / lane;
            let repeats = if bits * per_block > 8 || per_block == 2 && lane == 8 && block == 16 {
                // Each block has bits of its own (shufpd, vpermilpd).
                i / lane * bits
            } else {
                number * bits
            };
            let chosen = (self.immediate >> repeats) as usize & choices;
            Some((self.last(), i / block * block + chosen * lane + i % lane))
        })
    }

    /// Lanes of both in turn, from the lower or the upper halves of each 16 bytes.
    fn unpacked(&self, lane: usize, high: bool) -> Option<Origins> {
        let (first, last) = (self.first(), self.last());
        self.shuffled(|i| {
            let (block, within) = (i / 16 * 16, i % 16);
            let number = within / lane;
            let operand = if number.is_multiple_of(2) {
                first
            } else {
                last
            };
            let byte = number / 2 * lane + within % lane + if high { 8 } else { 0 };
            Some((operand, block + byte))
        })
    }

    /// Each lane of one or the other, by a bit of the constant, which is repeated after `block` bytes.
    fn blended(&self, lane: usize, block: usize) -> Option<Origins> {
        let (first, last) = (self.first(), self.last());
        self.shuffled(|i| {
            let bit = self.immediate >> (i % block / lane) & 1;
            Some((if bit == 0 { first } else { last }, i))
        })
    }

    /// One part of the first is replaced by the second.
    fn inserted(&self, part: usize) -> Option<Origins> {
        let (first, last) = (self.first(), self.last());
        let parts = (self.width / part).max(1);
        let at = self.immediate as usize % parts * part;
        self.shuffled(|i| {
            Some(if (at..at + part).contains(&i) {
                (last, i - at)
            } else {
                (first, i)
            })
        })
    }
}

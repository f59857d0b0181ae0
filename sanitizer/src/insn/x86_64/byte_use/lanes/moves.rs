//! Instructions that move vectors, or their lowest lanes and halves. (Intel SDM vol. 2.)

use iced_x86::{Mnemonic, OpKind};

use super::super::broadcast::broadcast;
use super::super::origins::Origins;
use super::Vector;

impl Vector<'_> {
    pub(super) fn moves(&self) -> Option<Origins> {
        use Mnemonic as M;
        let mnemonic = self.instruction.mnemonic();
        if let Some(element) = broadcast(mnemonic) {
            return self.shuffled(|i| Some((self.last(), i % element)));
        }
        match mnemonic {
            M::Movaps
            | M::Movapd
            | M::Movups
            | M::Movupd
            | M::Movdqa
            | M::Movdqu
            | M::Lddqu
            | M::Movntdq
            | M::Movntps
            | M::Movntdqa
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovdqa
            | M::Vmovdqu
            | M::Vlddqu
            | M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovntdq
            | M::Vmovntps => self.shuffled(|i| Some((self.last(), i))),
            M::Movd | M::Vmovd | M::Movss | M::Vmovss => self.low(4),
            M::Movq | M::Vmovq | M::Movsd | M::Vmovsd => self.low(8),
            M::Movlps | M::Movlpd | M::Vmovlps | M::Vmovlpd => {
                self.shuffled(|i| Some((if i < 8 { self.last() } else { self.first() }, i)))
            }
            M::Movhps | M::Movhpd | M::Vmovhps | M::Vmovhpd => {
                if self.instruction.op0_kind() == OpKind::Memory {
                    return self.shuffled(|i| Some((self.last(), i + 8)));
                }
                self.shuffled(|i| {
                    Some(if i < 8 {
                        (self.first(), i)
                    } else {
                        (self.last(), i - 8)
                    })
                })
            }
            M::Movlhps | M::Vmovlhps => self.shuffled(|i| {
                Some(if i < 8 {
                    (self.first(), i)
                } else {
                    (self.last(), i - 8)
                })
            }),
            M::Movhlps | M::Vmovhlps => self.shuffled(|i| {
                Some(if i < 8 {
                    (self.last(), i + 8)
                } else {
                    (self.first(), i)
                })
            }),
            M::Movddup | M::Vmovddup => self.shuffled(|i| Some((self.last(), i / 16 * 16 + i % 8))),
            M::Movsldup | M::Vmovsldup => self.shuffled(|i| Some((self.last(), i / 8 * 8 + i % 4))),
            M::Movshdup | M::Vmovshdup => {
                self.shuffled(|i| Some((self.last(), i / 8 * 8 + 4 + i % 4)))
            }
            _ => None,
        }
    }

    /// The lowest `bytes` of the last operand, the rest zero, or the first source's where two are joined.
    fn low(&self, bytes: usize) -> Option<Origins> {
        let registers = self.instruction.op0_kind() == OpKind::Register
            && self.instruction.op_kind(self.last()) == OpKind::Register;
        let joins = registers && bytes != 0 && !self.is_zeroing();
        self.moved(|i| {
            if i < bytes {
                vec![self.at(self.last(), i)]
            } else if joins {
                vec![self.at(self.first(), i)]
            } else {
                vec![]
            }
        })
    }

    fn is_zeroing(&self) -> bool {
        use Mnemonic as M;
        matches!(
            self.instruction.mnemonic(),
            M::Movd | M::Movq | M::Vmovd | M::Vmovq
        )
    }
}

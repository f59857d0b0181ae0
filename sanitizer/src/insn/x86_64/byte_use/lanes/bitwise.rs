//! Bitwise instructions, of which one operand may make the other one irrelevant. (Intel SDM vol. 2.)

use iced_x86::{Mnemonic, OpKind};

use super::super::constants::Constant;
use super::super::origins::Origins;
use super::Vector;

impl Vector<'_> {
    pub(super) fn bitwise(&self) -> Option<Origins> {
        use Mnemonic as M;
        // The byte of a constant operand that makes the other one irrelevant.
        let (first, last) = match self.instruction.mnemonic() {
            M::Pand
            | M::Vpand
            | M::Vpandd
            | M::Vpandq
            | M::Andps
            | M::Andpd
            | M::Vandps
            | M::Vandpd => (Some(0), Some(0)),
            M::Pandn
            | M::Vpandn
            | M::Vpandnd
            | M::Vpandnq
            | M::Andnps
            | M::Andnpd
            | M::Vandnps
            | M::Vandnpd => (Some(0xff), Some(0)),
            M::Por | M::Vpor | M::Vpord | M::Vporq | M::Orps | M::Orpd | M::Vorps | M::Vorpd => {
                (Some(0xff), Some(0xff))
            }
            M::Pxor
            | M::Vpxor
            | M::Vpxord
            | M::Vpxorq
            | M::Xorps
            | M::Xorpd
            | M::Vxorps
            | M::Vxorpd => {
                if self.is_same_twice() {
                    return self.made(|_| vec![]);
                }
                (None, None)
            }
            M::Vpternlogd | M::Vpternlogq => {
                return self.made(|i| (0..3).map(|operand| self.at(operand, i)).collect());
            }
            _ => return None,
        };
        let [a, b] = *self.sources.as_slice() else {
            return None;
        };
        let constants = (self.constant(a), self.constant(b));
        let decides = |constant: &Option<Constant>, by: Option<u8>, i: usize| {
            by.is_some() && constant.as_ref().and_then(|bytes| bytes.get(i)).copied() == by
        };
        self.made(|i| {
            if decides(&constants.0, first, i) || decides(&constants.1, last, i) {
                vec![]
            } else {
                vec![self.at(a, i), self.at(b, i)]
            }
        })
    }

    fn is_same_twice(&self) -> bool {
        let [a, b] = *self.sources.as_slice() else {
            return false;
        };
        let register = |i| {
            (self.instruction.op_kind(i) == OpKind::Register)
                .then(|| self.instruction.op_register(i))
        };
        register(a).is_some() && register(a) == register(b)
    }
}

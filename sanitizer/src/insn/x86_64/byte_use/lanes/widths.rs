//! Instructions whose results are narrower or wider than what they are made of. (Intel SDM vol. 2.)

use iced_x86::Mnemonic;

use super::super::origins::{Origins, size};
use super::Vector;

impl Vector<'_> {
    /// Results that are narrower or wider than what they are made of.
    pub(super) fn narrower(&self) -> Option<Origins> {
        use Mnemonic as M;
        let last = self.last();
        let widened = |from: usize, to: usize, signed: bool| {
            self.made(move |i| {
                let (lane, within) = (i / to, i % to);
                let byte = if within < from {
                    within
                } else if signed {
                    from - 1
                } else {
                    return vec![];
                };
                vec![self.at(last, lane * from + byte)]
            })
        };
        let cut = |from: usize, to: usize| {
            let lanes = size(self.instruction, last) / from;
            self.shuffled(move |i| (i / to < lanes).then(|| (last, i / to * from + i % to)))
        };
        // With saturation: of a whole lane.
        let packed = |from: usize| {
            let to = from / 2;
            let first = self.first();
            self.made(move |i| {
                let (block, within) = (i / 16 * 16, i % 16);
                let operand = if within < 8 { first } else { last };
                let lane = block + within % 8 / to * from;
                (lane..lane + from).map(|b| self.at(operand, b)).collect()
            })
        };
        let extracted = |part: usize| {
            let parts = (size(self.instruction, last) / part).max(1);
            let at = self.immediate as usize % parts * part;
            self.shuffled(move |i| (i < part).then_some((last, at + i)))
        };
        match self.instruction.mnemonic() {
            M::Pmovzxbw | M::Vpmovzxbw => widened(1, 2, false),
            M::Pmovzxbd | M::Vpmovzxbd => widened(1, 4, false),
            M::Pmovzxbq | M::Vpmovzxbq => widened(1, 8, false),
            M::Pmovzxwd | M::Vpmovzxwd => widened(2, 4, false),
            M::Pmovzxwq | M::Vpmovzxwq => widened(2, 8, false),
            M::Pmovzxdq | M::Vpmovzxdq => widened(4, 8, false),
            M::Pmovsxbw | M::Vpmovsxbw => widened(1, 2, true),
            M::Pmovsxbd | M::Vpmovsxbd => widened(1, 4, true),
            M::Pmovsxbq | M::Vpmovsxbq => widened(1, 8, true),
            M::Pmovsxwd | M::Vpmovsxwd => widened(2, 4, true),
            M::Pmovsxwq | M::Vpmovsxwq => widened(2, 8, true),
            M::Pmovsxdq | M::Vpmovsxdq => widened(4, 8, true),
            M::Vpmovwb => cut(2, 1),
            M::Vpmovdb => cut(4, 1),
            M::Vpmovqb => cut(8, 1),
            M::Vpmovdw => cut(4, 2),
            M::Vpmovqw => cut(8, 2),
            M::Vpmovqd => cut(8, 4),
            M::Packuswb | M::Packsswb | M::Vpackuswb | M::Vpacksswb => packed(2),
            M::Packusdw | M::Packssdw | M::Vpackusdw | M::Vpackssdw => packed(4),
            M::Vextractf128
            | M::Vextracti128
            | M::Vextractf32x4
            | M::Vextracti32x4
            | M::Vextractf64x2
            | M::Vextracti64x2 => extracted(16),
            M::Vextractf64x4 | M::Vextracti64x4 | M::Vextractf32x8 | M::Vextracti32x8 => {
                extracted(32)
            }
            M::Pextrb | M::Vpextrb => extracted(1),
            M::Pextrw | M::Vpextrw => extracted(2),
            M::Pextrd | M::Vpextrd | M::Extractps | M::Vextractps => extracted(4),
            M::Pextrq | M::Vpextrq => extracted(8),
            // Each result is twice, or half, as wide as its source.
            M::Cvtps2pd | M::Vcvtps2pd | M::Cvtdq2pd | M::Vcvtdq2pd | M::Vcvtudq2pd => {
                self.made(|i| (0..4).map(|b| self.at(last, i / 8 * 4 + b)).collect())
            }
            M::Cvtpd2ps
            | M::Cvttpd2dq
            | M::Cvtpd2dq
            | M::Vcvtpd2ps
            | M::Vcvttpd2dq
            | M::Vcvtpd2dq => self.made(|i| {
                let lane = i / 4 * 8;
                if lane < size(self.instruction, last) {
                    (0..8).map(|b| self.at(last, lane + b)).collect()
                } else {
                    vec![]
                }
            }),
            _ => None,
        }
    }
}

//! Arithmetic, whose lanes depend on the same lanes of their operands. (Intel SDM vol. 2.)

use iced_x86::{Mnemonic, OpKind};

use super::super::origins::{Origin, Origins, is_constant};
use super::Vector;

impl Vector<'_> {
    pub(super) fn arithmetic(&self) -> Option<Origins> {
        use Mnemonic as M;
        if self.instruction.op0_kind() != OpKind::Register {
            return None;
        }
        match self.instruction.mnemonic() {
            M::Paddb
            | M::Psubb
            | M::Vpaddb
            | M::Vpsubb
            | M::Pminub
            | M::Pmaxub
            | M::Pminsb
            | M::Pmaxsb
            | M::Vpminub
            | M::Vpmaxub
            | M::Vpminsb
            | M::Vpmaxsb
            | M::Pavgb
            | M::Vpavgb
            | M::Paddusb
            | M::Psubusb
            | M::Vpaddusb
            | M::Vpsubusb
            | M::Pcmpeqb
            | M::Pcmpgtb
            | M::Vpabsb
            | M::Pabsb => self.vertical(1),
            M::Paddw
            | M::Psubw
            | M::Pmullw
            | M::Vpaddw
            | M::Vpsubw
            | M::Vpmullw
            | M::Pmulhw
            | M::Pmulhuw
            | M::Vpmulhw
            | M::Vpmulhuw
            | M::Pminsw
            | M::Pmaxsw
            | M::Pminuw
            | M::Pmaxuw
            | M::Vpminsw
            | M::Vpmaxsw
            | M::Vpminuw
            | M::Vpmaxuw
            | M::Pavgw
            | M::Vpavgw
            | M::Paddusw
            | M::Psubusw
            | M::Vpaddusw
            | M::Vpsubusw
            | M::Pcmpeqw
            | M::Pcmpgtw
            | M::Pabsw
            | M::Vpabsw
            | M::Pmaddubsw
            | M::Vpmaddubsw => self.vertical(2),
            M::Paddd
            | M::Psubd
            | M::Pmulld
            | M::Vpaddd
            | M::Vpsubd
            | M::Vpmulld
            | M::Pminsd
            | M::Pmaxsd
            | M::Pminud
            | M::Pmaxud
            | M::Vpminsd
            | M::Vpmaxsd
            | M::Vpminud
            | M::Vpmaxud
            | M::Pcmpeqd
            | M::Pcmpgtd
            | M::Pabsd
            | M::Vpabsd
            | M::Addps
            | M::Subps
            | M::Mulps
            | M::Divps
            | M::Minps
            | M::Maxps
            | M::Vaddps
            | M::Vsubps
            | M::Vmulps
            | M::Vdivps
            | M::Vminps
            | M::Vmaxps
            | M::Sqrtps
            | M::Vsqrtps
            | M::Cvtdq2ps
            | M::Cvttps2dq
            | M::Cvtps2dq
            | M::Vcvtdq2ps
            | M::Vcvttps2dq
            | M::Vcvtps2dq
            | M::Vcvtudq2ps
            | M::Pmaddwd
            | M::Vpmaddwd => self.last_only_where_single(4),
            M::Paddq
            | M::Psubq
            | M::Vpaddq
            | M::Vpsubq
            | M::Addpd
            | M::Subpd
            | M::Mulpd
            | M::Divpd
            | M::Minpd
            | M::Maxpd
            | M::Vaddpd
            | M::Vsubpd
            | M::Vmulpd
            | M::Vdivpd
            | M::Vminpd
            | M::Vmaxpd
            | M::Sqrtpd
            | M::Vsqrtpd
            | M::Pcmpeqq
            | M::Pcmpgtq
            | M::Psadbw
            | M::Vpsadbw
            | M::Vpmullq => self.last_only_where_single(8),
            M::Addss
            | M::Subss
            | M::Mulss
            | M::Divss
            | M::Minss
            | M::Maxss
            | M::Vaddss
            | M::Vsubss
            | M::Vmulss
            | M::Vdivss
            | M::Vminss
            | M::Vmaxss => self.scalar(4),
            M::Addsd
            | M::Subsd
            | M::Mulsd
            | M::Divsd
            | M::Minsd
            | M::Maxsd
            | M::Vaddsd
            | M::Vsubsd
            | M::Vmulsd
            | M::Vdivsd
            | M::Vminsd
            | M::Vmaxsd => self.scalar(8),
            M::Vfmadd132ps | M::Vfmadd213ps | M::Vfmadd231ps => self.three(4),
            M::Vfmadd132pd | M::Vfmadd213pd | M::Vfmadd231pd => self.three(8),
            // The low halves of each lane.
            M::Pmuludq | M::Vpmuludq | M::Pmuldq | M::Vpmuldq => self.made(|i| {
                let first = i / 8 * 8;
                let lanes = |&operand: &u32| (first..first + 4).map(move |b| self.at(operand, b));
                self.sources.iter().flat_map(lanes).collect()
            }),
            M::Psrlw | M::Vpsrlw | M::Psllw | M::Vpsllw | M::Psraw | M::Vpsraw => self.shifted(2),
            M::Psrld | M::Vpsrld | M::Pslld | M::Vpslld | M::Psrad | M::Vpsrad => self.shifted(4),
            M::Psrlq | M::Vpsrlq | M::Psllq | M::Vpsllq | M::Vpsraq => self.shifted(8),
            _ => None,
        }
    }

    /// Whole lanes of `lane` bytes of all sources.
    fn vertical(&self, lane: usize) -> Option<Origins> {
        self.made(|i| {
            let first = i / lane * lane;
            let lanes = |&operand: &u32| (first..first + lane).map(move |b| self.at(operand, b));
            self.sources.iter().flat_map(lanes).collect()
        })
    }

    /// The lowest lane of all sources; the rest is the first one's.
    fn scalar(&self, lane: usize) -> Option<Origins> {
        self.made(|i| {
            if i >= lane {
                return vec![self.at(self.first(), i)];
            }
            let lanes = |&operand: &u32| (0..lane).map(move |byte| self.at(operand, byte));
            self.sources.iter().flat_map(lanes).collect()
        })
    }

    /// As [`Self::vertical`]; conversions have one source, which is not what they overwrite.
    fn last_only_where_single(&self, lane: usize) -> Option<Origins> {
        use Mnemonic as M;
        let single = matches!(
            self.instruction.mnemonic(),
            M::Cvtdq2ps
                | M::Cvttps2dq
                | M::Cvtps2dq
                | M::Vcvtdq2ps
                | M::Vcvttps2dq
                | M::Vcvtps2dq
                | M::Vcvtudq2ps
                | M::Sqrtps
                | M::Vsqrtps
                | M::Sqrtpd
                | M::Vsqrtpd
                | M::Pabsd
                | M::Vpabsd
        );
        if !single {
            return self.vertical(lane);
        }
        self.made(|i| {
            let first = i / lane * lane;
            (first..first + lane)
                .map(|byte| self.at(self.last(), byte))
                .collect()
        })
    }

    fn three(&self, lane: usize) -> Option<Origins> {
        self.made(|i| {
            let first = i / lane * lane;
            (0..3)
                .flat_map(|operand| (first..first + lane).map(move |b| self.at(operand, b)))
                .collect()
        })
    }

    /// Lanes shifted by a constant count.
    fn shifted(&self, lane: usize) -> Option<Origins> {
        use Mnemonic as M;
        let count = self.instruction.op_count();
        if !is_constant(self.instruction.op_kind(count - 1)) {
            return None;
        }
        let by = usize::try_from(self.immediate).ok()?;
        let from = if count > 2 { 1 } else { 0 };
        let mnemonic = self.instruction.mnemonic();
        let left = matches!(
            mnemonic,
            M::Psllw | M::Vpsllw | M::Pslld | M::Vpslld | M::Psllq | M::Vpsllq
        );
        let arithmetic = matches!(
            mnemonic,
            M::Psraw | M::Vpsraw | M::Psrad | M::Vpsrad | M::Vpsraq
        );
        self.made(|i| {
            let (lane_start, i) = (i / lane * lane, i % lane);
            let (first, last) = if left {
                match (8 * i + 7).checked_sub(by) {
                    Some(last) => ((8 * i).saturating_sub(by) / 8, last / 8),
                    None => return vec![],
                }
            } else {
                ((8 * i + by) / 8, (8 * i + 7 + by) / 8)
            };
            let mut bytes: Vec<Origin> = (first..=last)
                .filter(|&byte| byte < lane)
                .map(|byte| self.at(from, lane_start + byte))
                .collect();
            if arithmetic && bytes.is_empty() {
                bytes.push(self.at(from, lane_start + lane - 1));
            }
            bytes
        })
    }
}

//! Shuffles and blends whose pattern is a vector: understood where that is a constant. (Intel SDM vol. 2.)

use iced_x86::Mnemonic;

use super::super::constants::Constant;
use super::super::origins::Origins;
use super::Vector;

impl Vector<'_> {
    /// Shuffles by a vector of indices, and blends by a vector, where these are constants.
    pub(super) fn by_table(&self) -> Option<Origins> {
        use Mnemonic as M;
        let (first, last) = (self.first(), self.last());
        // Lane `i` of a vector of indices.
        let index = |table: &Constant, lane: usize, i: usize| -> usize {
            let at = i / lane * lane;
            let bytes = table.get(at..at + lane.min(2)).unwrap_or(&[]);
            bytes
                .iter()
                .rev()
                .fold(0, |index, &byte| index << 8 | usize::from(byte))
        };
        // The second source's lanes by the first's indices, over the whole vector.
        let permuted = |lane: usize| {
            let table = self.constant(first)?;
            let lanes = self.width / lane;
            self.shuffled(|i| {
                let chosen = index(&table, lane, i) % lanes;
                Some((last, chosen * lane + i % lane))
            })
        };
        // Lanes of two vectors by a third's indices.
        let of_two = |lane: usize, table: u32, low: u32| {
            let table = self.constant(table)?;
            let lanes = self.width / lane;
            self.shuffled(|i| {
                let chosen = index(&table, lane, i) % (2 * lanes);
                let operand = if chosen < lanes { low } else { 2 };
                Some((operand, chosen % lanes * lane + i % lane))
            })
        };
        match self.instruction.mnemonic() {
            M::Pshufb | M::Vpshufb => {
                let table = self.constant(last)?;
                self.shuffled(|i| {
                    let control = *table.get(i)?;
                    (control & 0x80 == 0).then(|| (first, i / 16 * 16 + usize::from(control & 0xf)))
                })
            }
            M::Vpermilps => {
                let table = self.constant(last)?;
                self.shuffled(|i| {
                    let chosen = index(&table, 4, i) & 3;
                    Some((first, i / 16 * 16 + chosen * 4 + i % 4))
                })
            }
            M::Vpermb => permuted(1),
            M::Vpermw => permuted(2),
            M::Vpermd | M::Vpermps => permuted(4),
            M::Vpermq | M::Vpermpd => permuted(8),
            M::Vpermt2b => of_two(1, 1, 0),
            M::Vpermt2w => of_two(2, 1, 0),
            M::Vpermt2d | M::Vpermt2ps => of_two(4, 1, 0),
            M::Vpermt2q | M::Vpermt2pd => of_two(8, 1, 0),
            M::Vpermi2b => of_two(1, 0, 1),
            M::Vpermi2w => of_two(2, 0, 1),
            M::Vpermi2d | M::Vpermi2ps => of_two(4, 0, 1),
            M::Vpermi2q | M::Vpermi2pd => of_two(8, 0, 1),
            M::Vpblendvb => {
                let table = self.constant(3)?;
                self.shuffled(|i| {
                    let takes_second = table.get(i)? & 0x80 != 0;
                    Some((if takes_second { 2 } else { 1 }, i))
                })
            }
            _ => None,
        }
    }
}

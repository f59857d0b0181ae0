//! Numbers that look random, and are the same each time.

/// splitmix64, from a seed on.
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// One from 0 to less than 1.
    pub fn unit(&mut self) -> f64 {
        const BITS: u32 = f64::MANTISSA_DIGITS;
        (self.next() >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
    }

    /// One below a limit, low ones far more often than high ones.
    pub fn skewed(&mut self, limit: usize) -> usize {
        const UNIT: u128 = 1 << 20;
        let number = self.below(UNIT as usize) as u128;
        ((number * number * number * limit as u128) / (UNIT * UNIT * UNIT)) as usize
    }
}

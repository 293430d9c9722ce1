//! Draws from a fixed seed, for figures that come out the same every time.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). It is part of the promise of equal results,
/// because another generator draws other samples.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts with this state.
    pub fn seeded(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns the next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, from the high half of a product; its bias is below n/2^64. 0 if
    /// `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let product = u128::from(self.draw()).saturating_mul(u128::try_from(n).unwrap_or(0));
        usize::try_from(product >> 64).unwrap_or(0)
    }
}

//! Random numbers from a seed: the same seed gives the same numbers on every machine.

/// The generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Starts with a seed.
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Starts with one of many neighbouring seeds, whose sequences must not overlap.
    pub(crate) fn apart(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed)
    }

    /// Returns any number.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    /// Returns true once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a position in something of length `n`, including both ends.
    pub(crate) fn up_to(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64 + 1)).unwrap()
    }
}

//! Choices read from fuzzed bytes: small inputs are whole scripts, and what runs out is zero.

/// Bytes that are read from the front.
pub(crate) struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Reads `data`.
    pub(crate) fn of(data: &'a [u8]) -> Choices<'a> {
        Choices { rest: data }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// The next two bytes.
    pub(crate) fn short(&mut self) -> u16 {
        u16::from(self.byte()) << 8 | u16::from(self.byte())
    }

    /// A number below `n`, or 0 if `n` is 0. One byte where that is enough, else two.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        match n {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % n,
            _ => usize::from(self.short()) % n,
        }
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Up to `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

//! Randomness as the core sees it: a source handed in.

/// A source of random numbers that the caller owns. The core draws from nothing else.
pub trait Rng {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;
}

impl<R: Rng + ?Sized> Rng for &mut R {
    fn next_u64(&mut self) -> u64 {
        (**self).next_u64()
    }
}

/// A uniform number in `[0, 1)`.
pub(crate) fn unit(rng: &mut dyn Rng) -> f64 {
    // 53 bits: every value is exact in an f64.
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A uniform number in `0..bound`; 0 if `bound` is 0.
pub(crate) fn below(rng: &mut dyn Rng, bound: usize) -> usize {
    if bound == 0 {
        return 0;
    }
    let wide = u128::from(rng.next_u64()) * bound as u128;
    usize::try_from(wide >> 64).unwrap_or(0)
}

/// SplitMix64: a small deterministic source for tests and simulations, also used as a mixing function.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A source that always gives the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Rng for SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every input bit.
pub(crate) const fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a over bytes, finished by [`mix`]: a stable hash, the same in every process and on every replica.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for b in bytes {
        h = (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(h)
}

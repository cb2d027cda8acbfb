//! The one source of chance: `SplitMix64`. A seed decides the schedule and every fault.

use std::time::Duration;

/// A generator of 64-bit numbers.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// An index of something with `len` elements, which is not empty.
    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index fits")
    }

    /// True once in `one_in` times; never for zero.
    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.below(one_in) == 0
    }

    /// A number within `±bound`.
    pub(super) fn around(&mut self, bound: i64) -> i64 {
        let span = bound.unsigned_abs() * 2 + 1;
        i64::try_from(self.below(span)).expect("a small bound") - bound
    }

    /// A duration below `bound`, in whole milliseconds.
    pub(super) fn millis_below(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

//! How much of an import is under way: additive rise, multiplicative fall.

/// How much is under way: less when adds are late because the server is slow, more when not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window(usize);

impl Default for Window {
    fn default() -> Self {
        Self(Self::MOST)
    }
}

impl Window {
    const MOST: usize = 16;

    /// How many blocks one note covers at most, and so one generation time.
    pub(crate) fn blocks(self) -> usize {
        self.0
    }

    /// How many calls are under way at most.
    pub(crate) fn calls(self) -> usize {
        self.0.div_ceil(2)
    }

    /// After a batch without any late add.
    pub(crate) fn grow(&mut self) {
        self.0 = (self.0 + 1).min(Self::MOST);
    }

    /// After a batch with late adds.
    pub(crate) fn shrink(&mut self) {
        self.0 = (self.0 / 2).max(1);
    }
}

//! Which counters the events are of.

/// How events spread over counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The n-th of so many counters is n times rarer than the first.
    Zipf(u32),
    /// Each of so many counters is as likely.
    Uniform(u32),
}

impl Shape {
    /// How many counters there are.
    pub(super) fn counters(self) -> u32 {
        let (Self::Zipf(counters) | Self::Uniform(counters)) = self;
        counters
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Zipf(_) => "zipf",
            Self::Uniform(_) => "uniform",
        }
    }

    /// A sequence of counters, the same each time.
    pub(super) fn draw(self) -> impl FnMut() -> u32 {
        let mut random = fastrand::Rng::with_seed(1);
        let counters = self.counters();
        let mut sum = 0.0;
        let sums: Vec<f64> = match self {
            Self::Zipf(_) => (1..=counters)
                .map(|rank| {
                    sum += 1.0 / f64::from(rank);
                    sum
                })
                .collect(),
            Self::Uniform(_) => Vec::new(),
        };
        move || match sums.last() {
            Some(total) => {
                let at = random.f64() * total;
                let below = sums.partition_point(|sum| *sum <= at);
                u32::try_from(below).map_or(counters - 1, |below| below.min(counters - 1))
            }
            None => random.u32(0..counters),
        }
    }
}

/// The name of a counter.
pub(super) fn counter(number: u32) -> String {
    format!("counter-{number}")
}

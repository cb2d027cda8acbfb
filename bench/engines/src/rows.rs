//! Deterministic rows shaped like the real event keys.

/// Microseconds of the first event; only the width and the growth matter.
const START_MICROS: u64 = 1_760_000_000_000_000;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const NAMESPACE: u32 = 7;

/// A key and its value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// `SplitMix64`: small, and the same rows on every run.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Everything that comes before the bucket: the range a counter's rows live in.
pub(crate) fn counter_prefix(counter: u64) -> Vec<u8> {
    let mut key = NAMESPACE.to_be_bytes().to_vec();
    key.extend_from_slice(format!("views:article:{counter:08}").as_bytes());
    key.push(0);
    key
}

/// Produces events in time order, each for a uniformly chosen counter.
pub(crate) struct Rows {
    rng: Rng,
    counters: u64,
    produced: u64,
}

impl Rows {
    pub(crate) fn new(counters: u64) -> Self {
        Self {
            rng: Rng(42),
            counters,
            produced: 0,
        }
    }

    pub(crate) fn batch(&mut self, len: u64) -> Vec<Row> {
        (0..len).map(|_| self.row()).collect()
    }

    fn row(&mut self) -> Row {
        self.produced += 1;
        let counter = self.rng.below(self.counters);
        let time = START_MICROS + self.produced * 20;
        let mut key = counter_prefix(counter);
        key.extend_from_slice(&0_u32.to_be_bytes());
        key.push(self.rng.next().to_be_bytes()[0] % 4);
        key.extend_from_slice(&time.to_be_bytes());
        for _ in 0..22 {
            let digit = usize::try_from(self.rng.below(62)).unwrap_or(0);
            key.push(BASE62[digit]);
        }
        key.extend_from_slice(&[0, 1, 0, 1]);
        key.extend_from_slice(&(time - self.rng.below(1_000_000)).to_be_bytes());
        key.extend_from_slice(&counter.to_be_bytes()[6..]);
        key.extend_from_slice(&self.produced.to_be_bytes());
        (key, vec![1, 2])
    }
}

/// One group commit of the log: its key (partition, base offset) and 64 records.
pub(crate) fn log_record(rng: &mut Rng, base_offset: u64) -> Row {
    let mut key = 3_u16.to_be_bytes().to_vec();
    key.extend_from_slice(&base_offset.to_be_bytes());
    let mut value = Vec::with_capacity(64 * 120);
    for record in 0..64_u64 {
        // A record is half random (token, time) and half repetitive (names, framing).
        let id = rng.next() % 10_000;
        value
            .extend_from_slice(format!("add views:article:{id:08} record:{record:04} ").as_bytes());
        value.resize(value.len().next_multiple_of(40), b'.');
        while value.len() % 120 != 0 {
            value.extend_from_slice(&rng.next().to_be_bytes());
        }
    }
    (key, value)
}

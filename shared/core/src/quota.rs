//! What a namespace may use up, and the two machines that decide it: a bucket of writes and a set of
//! active counters. Each process has its own.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

/// The bounds of a namespace; without one, there is none. They change no count, so they have no
/// history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Mutations a second; items of a batch count one each.
    pub writes_per_second: Option<NonZeroU32>,
    /// Distinct counters written within [`ACTIVE_FOR`].
    pub active_counters: Option<NonZeroU32>,
}

/// A counter is active for this long after a write to it.
pub const ACTIVE_FOR: Duration = Duration::from_hours(1);
/// A bucket holds the writes of this long.
const CAPACITY: Duration = Duration::from_secs(1);
/// The set of active counters is walked this often at most: a walk takes milliseconds.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// A bucket that fills at a rate and is emptied by writes. It is full at first, and holds the
/// writes of one second.
///
/// A batch that is larger than the bucket takes all of it and leaves a debt, which must be filled
/// before anything else is taken: so each batch finds its time, and in the long run the rate holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteBucket {
    full_at: Duration,
}

impl WriteBucket {
    /// Takes this many writes at `now`, on a clock that only runs forward.
    ///
    /// # Errors
    /// After how long the bucket will have room for them, if nobody else takes it before.
    pub fn take(&mut self, writes: u32, rate: NonZeroU32, now: Duration) -> Result<(), Duration> {
        let missing = self.full_at.saturating_sub(now);
        let asked = time_to_fill(writes.min(rate.get()), rate);
        let over = (missing + asked).saturating_sub(CAPACITY);
        if !over.is_zero() {
            return Err(over);
        }
        self.full_at = now + missing + time_to_fill(writes, rate);
        Ok(())
    }
}

fn time_to_fill(writes: u32, rate: NonZeroU32) -> Duration {
    let nanos = u64::from(writes) * 1_000_000_000;
    Duration::from_nanos(nanos / u64::from(rate.get()))
}

/// The counters that were written within [`ACTIVE_FOR`], by a hash of their names. Two names with
/// one hash count as one: that lets one more in, and is rarer than anything else that goes wrong.
///
/// It holds as many as the bound allows, and no more.
#[derive(Clone, Debug, Default)]
pub struct ActiveCounters {
    written: BTreeMap<u64, Duration>,
    /// Nothing leaves before this, or it is not worth a walk.
    next_sweep: Duration,
}

impl ActiveCounters {
    /// Notes a write to a counter at `now`, on a clock that only runs forward. One that is active
    /// stays so, whatever the bound has become.
    ///
    /// # Errors
    /// When as many as the bound are active, and this is not one of them. No counter leaves before
    /// the time that is given.
    pub fn note(&mut self, counter: u64, most: NonZeroU32, now: Duration) -> Result<(), Duration> {
        if let Some(last) = self.written.get_mut(&counter) {
            *last = now;
            return Ok(());
        }
        let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
        if self.written.len() >= most && now >= self.next_sweep {
            self.sweep(now);
        }
        if self.written.len() >= most {
            return Err(self.next_sweep.saturating_sub(now));
        }
        self.written.insert(counter, now);
        Ok(())
    }

    fn sweep(&mut self, now: Duration) {
        self.written
            .retain(|_, last| now.saturating_sub(*last) < ACTIVE_FOR);
        let oldest = self.written.values().min().copied().unwrap_or(now);
        self.next_sweep = (oldest + ACTIVE_FOR).max(now + SWEEP_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_bucket_gives_a_second_s_worth_at_once_and_then_as_fast_as_it_fills() {
        let (mut bucket, rate) = (WriteBucket::default(), number(10));
        for _ in 0..10 {
            assert_eq!(bucket.take(1, rate, at(5_000)), Ok(()));
        }
        assert_eq!(bucket.take(1, rate, at(5_000)), Err(at(100)));
        assert_eq!(bucket.take(3, rate, at(5_050)), Err(at(250)));
        assert_eq!(
            bucket.take(3, rate, at(5_300)),
            Ok(()),
            "as it was promised"
        );
        assert_eq!(bucket.take(1, rate, at(5_300)), Err(at(100)));
        assert_eq!(
            bucket.take(10, rate, at(60_000)),
            Ok(()),
            "never more than full"
        );
        assert_eq!(bucket.take(1, rate, at(60_000)), Err(at(100)));
    }

    #[test]
    fn a_batch_larger_than_the_bucket_goes_and_is_paid_for_afterwards() {
        let (mut bucket, rate) = (WriteBucket::default(), number(10));
        assert_eq!(bucket.take(35, rate, at(0)), Ok(()));
        assert_eq!(bucket.take(1, rate, at(0)), Err(at(2_600)));
        assert_eq!(bucket.take(35, rate, at(0)), Err(at(3_500)));
        assert_eq!(bucket.take(35, rate, at(3_500)), Ok(()));
    }

    #[test]
    fn in_the_long_run_a_bucket_gives_its_rate() {
        for rate in [1, 7, 1_000, 10_000_000] {
            let mut bucket = WriteBucket::default();
            let mut now = Duration::ZERO;
            let size = (rate / 3).max(1);
            let mut given = 0_u64;
            while now < Duration::from_secs(100) {
                match bucket.take(size, number(rate), now) {
                    Ok(()) => given += u64::from(size),
                    Err(wait) => now += wait,
                }
            }
            let most = 101 * u64::from(rate) + u64::from(size);
            assert!(
                (most - 2 * u64::from(size) - u64::from(rate)..=most).contains(&given),
                "{rate}: {given}"
            );
        }
    }

    #[test]
    fn active_counters_go_on_and_new_ones_wait_until_one_leaves() {
        let (mut active, two) = (ActiveCounters::default(), number(2));
        assert_eq!(active.note(1, two, at(0)), Ok(()));
        assert_eq!(active.note(2, two, at(1_000)), Ok(()));
        assert_eq!(
            active.note(3, two, at(2_000)),
            Err(ACTIVE_FOR.saturating_sub(at(2_000)))
        );
        assert_eq!(active.note(1, two, at(3_000)), Ok(()), "it is active");
        // The one that was oldest was written again, so the next is.
        let hour = ACTIVE_FOR;
        assert_eq!(active.note(3, two, hour), Err(at(1_000)));
        assert_eq!(active.note(3, two, hour + at(1_000)), Ok(()));
        assert_eq!(active.note(2, two, hour + at(1_000)), Err(at(2_000)));
        assert_eq!(
            active.note(1, number(1), hour),
            Ok(()),
            "active under a lower bound"
        );
    }
}

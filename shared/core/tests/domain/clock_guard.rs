use crate::at;
use proptest::prelude::*;
use quipu_core::{
    clock_guard::{ClockGuard, ClockJumped},
    time::Micros,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const TOLERANCE: Duration = ClockGuard::TOLERANCE;

#[test]
fn drift_up_to_the_tolerance_is_followed_and_not_a_microsecond_more() {
    let start = at(1_000_000);
    let passed = Duration::from_secs(10);
    let most = start + passed + TOLERANCE;
    assert_eq!(
        ClockGuard::new(start, SECOND).check(most, SECOND + passed),
        Ok(most)
    );
    let jumped = ClockGuard::new(start, SECOND).check(most.succ(), SECOND + passed);
    let ahead = TOLERANCE + Duration::from_micros(1);
    assert_eq!(jumped, Err(ClockJumped { ahead }));
}

#[test]
fn a_jump_holds_until_real_time_has_caught_up_with_it() {
    let mut guard = ClockGuard::new(at(0), Duration::ZERO);
    let hour = Duration::from_hours(1);
    assert!(guard.check(at(0) + hour, SECOND).is_err());
    // The jumped clock runs on as real time does: still an hour ahead.
    assert!(guard.check(at(0) + hour + SECOND, 2 * SECOND).is_err());
    // It stands still, and real time catches up.
    assert_eq!(
        guard.check(at(0) + hour, hour.saturating_sub(TOLERANCE)),
        Ok(at(0) + hour)
    );
}

#[test]
fn a_step_back_is_followed() {
    let mut guard = ClockGuard::new(at(0), Duration::ZERO);
    let back = at(0) - Duration::from_hours(1);
    assert_eq!(guard.check(back, SECOND), Ok(back));
    assert_eq!(guard.check(back + SECOND, 2 * SECOND), Ok(back + SECOND));
}

#[test]
fn a_clock_that_stepped_back_may_return_to_where_it_would_have_been() {
    let mut guard = ClockGuard::new(at(0), Duration::ZERO);
    let back = at(0) - Duration::from_hours(1);
    assert_eq!(guard.check(back, SECOND), Ok(back));
    let returned = at(0) + 2 * SECOND;
    assert_eq!(guard.check(returned, 2 * SECOND), Ok(returned));
    let ahead = returned + Duration::from_mins(1);
    assert!(guard.check(ahead, 3 * SECOND).is_err());
}

#[test]
fn a_new_guard_trusts_the_clock_as_it_shows() {
    for wall in [Micros::MIN, at(0), Micros::MAX] {
        assert_eq!(ClockGuard::new(wall, SECOND).check(wall, SECOND), Ok(wall));
    }
}

proptest! {
    #[test]
    fn what_is_followed_was_never_further_ahead_than_the_tolerance(
        readings in prop::collection::vec((-5_000_000_i64..5_000_000, 0_u64..3_000_000), 1..40),
    ) {
        let mut guard = ClockGuard::new(at(0), Duration::ZERO);
        let (mut trusted, mut wall, mut steady) = ((at(0), Duration::ZERO), 0, Duration::ZERO);
        for (step, passed) in readings {
            wall += step;
            steady += Duration::from_micros(passed);
            let expected = trusted.0 + steady.saturating_sub(trusted.1);
            let checked = guard.check(at(wall), steady);
            prop_assert_eq!(checked.is_ok(), at(wall) <= expected + TOLERANCE);
            // Drift is followed; a step back leaves the way open to return.
            if checked.is_ok() && expected.since(at(wall)) <= TOLERANCE {
                trusted = (at(wall), steady);
            }
        }
    }
}

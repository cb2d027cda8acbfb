//! Until when a call may wait.

use axum::http::{Extensions, HeaderMap, HeaderValue};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The moment by which a call has to have its answer ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Instant);

/// For a call of which no limit is known.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// What is kept of a call's time to bring its answer to the caller: a tenth, but at most this.
const LONGEST_MARGIN: Duration = Duration::from_millis(500);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Deadline {
    /// The deadline of a call that begins now and may take this long, its answer's way included.
    pub fn within(limit: Duration) -> Self {
        let margin = (limit / 10).min(LONGEST_MARGIN);
        Self(Instant::now() + limit.saturating_sub(margin))
    }

    /// What the server knows of a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let known = extensions.get::<Self>();
        known
            .copied()
            .unwrap_or_else(|| Self::within(DEFAULT_LIMIT))
    }

    /// How long there is left.
    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Pauses between looks at something that is to come, each twice as long as the one before.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    deadline: Deadline,
}

impl Pauses {
    /// The last of them ends at the deadline.
    pub(crate) fn until(deadline: Deadline) -> Self {
        Self {
            next: FIRST_PAUSE,
            deadline,
        }
    }

    /// Waits. False, at once, when the deadline has come.
    pub(crate) async fn pause(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.deadline.0 {
            return false;
        }
        sleep_until((now + self.next).min(self.deadline.0)).await;
        self.next = (2 * self.next).min(LONGEST_PAUSE);
        true
    }
}

/// How long a gRPC caller waits at most, if it says so: up to eight digits and a unit.
pub(crate) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout").map(HeaderValue::to_str)?.ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount = digits.parse::<u64>().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(3_600 * amount)),
        "M" => Some(Duration::from_secs(60 * amount)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_timeout_is_read_with_its_unit() {
        for (text, expected) in [
            ("1H", Some(Duration::from_hours(1))),
            ("2M", Some(Duration::from_mins(2))),
            ("3S", Some(Duration::from_secs(3))),
            ("250m", Some(Duration::from_millis(250))),
            ("5u", Some(Duration::from_micros(5))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("100000000n", None),
            ("1.5S", None),
            ("-1S", None),
            ("5", None),
            ("S", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(
                axum::http::HeaderName::from_static("grpc-timeout"),
                HeaderValue::from_str(text).unwrap(),
            )]);
            assert_eq!(grpc_timeout(&headers), expected, "{text}");
        }
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn pauses_grow_and_end_at_the_deadline() {
        let began = Instant::now();
        let mut pauses = Pauses::until(Deadline::within(Duration::from_millis(200)));
        let mut looks = 1;
        while pauses.pause().await {
            looks += 1;
        }
        let waited = began.elapsed();
        assert!(waited >= Duration::from_millis(180), "{waited:?}");
        assert!((2..=8).contains(&looks), "{looks} looks");
        assert!(!pauses.pause().await, "the deadline stays");
    }
}

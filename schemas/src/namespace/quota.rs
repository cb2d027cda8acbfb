//! What a namespace may use up, as its document says it.

use quipu_core::quota::Quota;
use serde::{Deserialize, Serialize};
use std::{num::NonZeroU32, ops::RangeInclusive};

/// Bounds on what a namespace uses up. Each gateway process keeps them by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DocumentQuota {
    /// Mutations a second; items of a batch count one each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000_000)))]
    pub writes_per_second: Option<u32>,
    /// Distinct counters written within an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub active_counters: Option<u32>,
}

const WRITES: RangeInclusive<u32> = 1..=10_000_000;
/// Each takes some twenty bytes of a gateway's memory.
const COUNTERS: RangeInclusive<u32> = 1..=1_000_000;

impl DocumentQuota {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The field that is out of its range, and what is wrong with it.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let fields = [
            ("quota.writes_per_second", self.writes_per_second, WRITES),
            ("quota.active_counters", self.active_counters, COUNTERS),
        ];
        fields.into_iter().find_map(|(field, value, range)| {
            let value = value.filter(|value| !range.contains(value))?;
            let (least, most) = (range.start(), range.end());
            let problem =
                format!("{value} is not between {least} and {most}; leave it out for no bound");
            Some((field, problem))
        })
    }
}

impl From<DocumentQuota> for Quota {
    fn from(quota: DocumentQuota) -> Self {
        Self {
            writes_per_second: quota.writes_per_second.and_then(NonZeroU32::new),
            active_counters: quota.active_counters.and_then(NonZeroU32::new),
        }
    }
}

//! When nearly everything of a partition is refused for what it is, not for when it came, the topic
//! or its producers are wrong, and dead-lettering the rest helps nobody: the role stops instead.

use quipu_core::policy::Refusal;
use std::collections::VecDeque;

/// So many records of a partition are looked back on. Fewer never stop the role.
const RECENT: usize = 1_000;

/// Nearly all of a partition's recent records were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearlyAllRefused {
    /// How many of a hundred.
    pub percent: u32,
    /// The reason of the last one.
    pub reason: &'static str,
}

/// What became of a partition's recent records.
#[derive(Clone, Debug)]
pub struct RecentVerdicts {
    most_percent: u32,
    refused: VecDeque<bool>,
    count: usize,
    last: &'static str,
}

impl RecentVerdicts {
    /// Nothing is known yet. More than `most_percent` refused of a hundred are too many; 100 never
    /// are.
    pub fn new(most_percent: u32) -> Self {
        Self {
            most_percent,
            refused: VecDeque::with_capacity(RECENT),
            count: 0,
            last: "",
        }
    }

    /// Notes a verdict: `None` for an accepted event. Events at the wrong time are no sign of a
    /// wrong topic.
    pub fn note(&mut self, refusal: Option<&Refusal>) {
        let wrong = refusal.filter(|refusal| match refusal {
            Refusal::Malformed(_)
            | Refusal::WrongTopic
            | Refusal::KeepsNoEvents
            | Refusal::UnknownNamespace
            | Refusal::NotLogStamped => true,
            Refusal::Late { .. } | Refusal::TooFarAhead { .. } => false,
        });
        if self.refused.len() == RECENT && self.refused.pop_front() == Some(true) {
            self.count -= 1;
        }
        self.refused.push_back(wrong.is_some());
        if let Some(refusal) = wrong {
            self.count += 1;
            self.last = refusal.reason();
        }
    }

    /// Whether the next record must not be decided.
    pub fn too_many(&self) -> Option<NearlyAllRefused> {
        let percent = u32::try_from(self.count * 100 / RECENT).unwrap_or(u32::MAX);
        let full = self.refused.len() == RECENT;
        (full && percent > self.most_percent).then_some(NearlyAllRefused {
            percent,
            reason: self.last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_core::time::Micros;

    fn late() -> Refusal {
        Refusal::Late {
            horizon: Micros::new(0),
        }
    }

    #[test]
    fn it_takes_a_thousand_records_and_more_than_the_limit() {
        let mut verdicts = RecentVerdicts::new(90);
        for at in 0..1_000 {
            assert_eq!(verdicts.too_many(), None, "after {at}");
            verdicts.note((at >= 90).then_some(&Refusal::WrongTopic));
        }
        let expected = NearlyAllRefused {
            percent: 91,
            reason: "wrong_topic",
        };
        assert_eq!(verdicts.too_many(), Some(expected));
        // The good ones at the beginning are forgotten, then better ones come.
        for _ in 0..100 {
            verdicts.note(None);
        }
        assert_eq!(verdicts.too_many(), None);
    }

    #[test]
    fn late_events_and_a_limit_of_a_hundred_never_stop_anything() {
        let (mut late_ones, mut unlimited) = (RecentVerdicts::new(90), RecentVerdicts::new(100));
        for _ in 0..2_000 {
            late_ones.note(Some(&late()));
            unlimited.note(Some(&Refusal::UnknownNamespace));
        }
        assert_eq!((late_ones.too_many(), unlimited.too_many()), (None, None));
    }
}

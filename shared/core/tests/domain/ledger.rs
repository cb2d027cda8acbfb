use proptest::prelude::*;
use quipu_core::ledger::OffsetLedger;

/// What the ledger does, without its data structure: every range ever tracked, in order.
struct Naive {
    start: (u64, u32),
    ranges: Vec<(u64, u64, u32, bool)>,
}

impl Naive {
    fn frontier(&self) -> (u64, u32) {
        let finished = self.ranges.iter().take_while(|(.., finished)| *finished);
        finished
            .last()
            .map_or(self.start, |(_, next, note, _)| (*next, *note))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Track { gap: u64, length: u64 },
    Finish(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..3, 1_u64..5).prop_map(|(gap, length)| Step::Track { gap, length }),
        any::<prop::sample::Index>().prop_map(Step::Finish),
    ]
}

proptest! {
    #[test]
    fn the_frontier_passes_what_is_finished_and_nothing_else(
        start in 0_u64..100,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut ledger = OffsetLedger::new(start, 0);
        let mut naive = Naive { start: (start, 0), ranges: Vec::new() };
        for (note, step) in (1..).zip(steps) {
            let before = naive.frontier();
            match step {
                Step::Track { gap, length } => {
                    let end = naive.ranges.last().map_or(start, |(_, next, ..)| *next);
                    ledger.track(end + gap, end + gap + length, note);
                    naive.ranges.push((end + gap, end + gap + length, note, false));
                }
                Step::Finish(which) => {
                    let mut open: Vec<_> = naive.ranges.iter_mut().filter(|it| !it.3).collect();
                    if open.is_empty() {
                        continue;
                    }
                    let range = which.get_mut(&mut open);
                    range.3 = true;
                    let first = range.0;
                    prop_assert_eq!(ledger.finish(first), naive.frontier() != before);
                }
            }
            let (frontier, note) = ledger.frontier();
            prop_assert_eq!((frontier, *note), naive.frontier());
            let waiting = naive.ranges.iter().skip_while(|(.., finished)| *finished).count();
            prop_assert_eq!(ledger.len(), waiting);
            prop_assert_eq!(ledger.is_empty(), waiting == 0);
            let unfinished = naive.ranges.iter().find(|(.., finished)| !finished);
            prop_assert!(unfinished.is_none_or(|(first, ..)| frontier <= *first));
        }
    }
}

#[test]
#[should_panic(expected = "finished twice")]
fn finishing_twice_is_a_bug() {
    let mut ledger = OffsetLedger::new(0, ());
    ledger.track(0, 1, ());
    ledger.track(1, 2, ());
    ledger.finish(1);
    ledger.finish(1);
}

#[test]
#[should_panic(expected = "only a tracked range")]
fn finishing_what_was_never_tracked_is_a_bug() {
    OffsetLedger::new(0, ()).finish(0);
}

#[test]
#[should_panic(expected = "must follow")]
fn a_range_that_overlaps_is_a_bug() {
    let mut ledger = OffsetLedger::new(0, ());
    ledger.track(0, 5, ());
    ledger.track(4, 6, ());
}

#[test]
#[should_panic(expected = "must follow")]
fn a_range_behind_the_frontier_is_a_bug() {
    OffsetLedger::new(7, ()).track(6, 8, ());
}

#[test]
#[should_panic(expected = "must follow")]
fn an_empty_range_is_a_bug() {
    OffsetLedger::new(7, ()).track(7, 7, ());
}

use crate::at;
use proptest::prelude::*;
use quipu_core::{effective::EffectiveTime, time::Micros, watermark::Watermarks};
use std::collections::BTreeMap;

proptest! {
    #[test]
    fn the_low_watermark_is_the_smallest_running_maximum(
        initial in prop::collection::btree_map(0_u32..4, -5_i64..5, 0..4),
        published in prop::collection::vec((0_u32..5, -10_i64..30), 0..60),
    ) {
        let mut watermarks = Watermarks::new(initial.iter().map(|(id, time)| (*id, at(*time))));
        let mut newest: BTreeMap<u32, i64> = initial;
        prop_assert_eq!(watermarks.low(), newest.values().min().map(|time| at(*time)));
        for (partition, time) in published {
            let before = watermarks.low();
            let known = newest.get(&partition).copied();
            // A partition that is not registered is unknown here (R12).
            prop_assert_eq!(
                watermarks.advance(partition, at(time)),
                known.is_some_and(|known| known < time)
            );
            if let Some(known) = known {
                newest.insert(partition, known.max(time));
            }
            prop_assert_eq!(watermarks.low(), newest.values().min().map(|time| at(*time)));
            prop_assert!(watermarks.low() >= before, "the low watermark never goes back");
        }
        let shown: BTreeMap<u32, i64> =
            watermarks.iter().map(|(partition, time)| (partition, time.get())).collect();
        prop_assert_eq!(shown, newest);
    }

    #[test]
    fn effective_time_is_the_running_maximum_and_can_be_resumed_anywhere(
        initial in -20_i64..20,
        appends in prop::collection::vec(-50_i64..50, 1..40),
        restart in any::<prop::sample::Index>(),
    ) {
        let restart = restart.index(appends.len());
        let mut effective = EffectiveTime::resume(at(initial));
        for (index, append) in appends.iter().enumerate() {
            if index == restart {
                effective = EffectiveTime::resume(effective.get());
            }
            let expected = appends[..=index].iter().copied().chain([initial]).max();
            prop_assert_eq!(Some(effective.observe(at(*append)).get()), expected);
            prop_assert_eq!(Some(effective.get().get()), expected);
        }
    }
}

#[test]
fn nothing_closes_without_partitions() {
    assert_eq!(Watermarks::default().low(), None);
    assert!(!Watermarks::default().advance(0, Micros::MAX));
}

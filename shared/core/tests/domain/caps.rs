use crate::at;
use proptest::prelude::*;
use quipu_core::{
    caps::{CapError, CappedRange, CappedRanges},
    effective::EffectiveTime,
    time::Micros,
};

fn range(first: u64, last: u64, time: i64, above: i64) -> CappedRange {
    CappedRange {
        partition: 0,
        first,
        last,
        time: at(time),
        above: at(above),
    }
}

fn all(ranges: &[CappedRange]) -> CappedRanges {
    let mut caps = CappedRanges::none();
    for range in ranges {
        caps.add(*range).expect("they come in order");
    }
    caps
}

/// Stretches in the order in which they are made, with bounds that only rise.
fn history() -> impl Strategy<Value = Vec<CappedRange>> {
    let one = (0_u64..12, 0_u64..12, 0_i64..60, 0_i64..15);
    prop::collection::vec(one, 0..5).prop_map(|stretches| {
        let mut above = 5;
        let stretches = stretches.into_iter().map(|(a, b, time, later)| {
            above += later;
            range(a.min(b), a.max(b), time, above)
        });
        stretches.collect()
    })
}

/// Reads a partition with whatever caps are known, as ingest does: a record is decided only by
/// those whose policy is valid through its effective time, and otherwise waits for newer policy.
/// `patience` says how long a version is kept although a newer one is there.
fn read(stamps: &[i64], history: &[CappedRange], patience: &[usize]) -> Vec<Micros> {
    let mut known = 0;
    let mut effective = EffectiveTime::resume(at(0));
    let mut decided = Vec::new();
    let mut patience = patience.iter().copied().chain(std::iter::repeat(0));
    let mut left = patience.next().unwrap_or(0);
    while decided.len() < stamps.len() {
        let offset = decided.len() as u64;
        let append_time = all(&history[..known]).append_time(0, offset, at(stamps[decided.len()]));
        let valid_through = history.get(known).map_or(Micros::MAX, |next| next.above);
        let may_decide = effective.get().max(append_time) <= valid_through;
        if may_decide && (left > 0 || known == history.len()) {
            left = left.saturating_sub(1);
            decided.push(effective.observe(append_time));
        } else {
            known += 1;
            left = patience.next().unwrap_or(0);
        }
    }
    decided
}

proptest! {
    #[test]
    fn every_replay_decides_by_the_same_times_whichever_caps_it_knew_when(
        stamps in prop::collection::vec(0_i64..80, 1..12),
        history in history(),
        patience in prop::collection::vec(0_usize..8, 0..5),
    ) {
        let replay = read(&stamps, &history, &[]);
        prop_assert_eq!(read(&stamps, &history, &patience), replay);
    }

    #[test]
    fn effective_time_is_the_running_maximum_of_capped_times(
        stamps in prop::collection::vec(0_i64..80, 1..12),
        history in history(),
    ) {
        let caps = all(&history);
        let mut effective = EffectiveTime::resume(at(0));
        let mut newest = at(0);
        for (offset, stamp) in (0..).zip(&stamps) {
            let append_time = caps.append_time(0, offset, at(*stamp));
            prop_assert!(append_time <= at(*stamp), "a cap never moves a time ahead");
            newest = newest.max(append_time);
            prop_assert_eq!(effective.observe(append_time), newest);
        }
    }
}

#[test]
fn a_cap_concerns_its_partition_and_offsets_and_later_times_than_anybody_was_granted() {
    let caps = all(&[range(3, 5, 40, 100)]);
    assert_eq!(caps.append_time(0, 3, at(101)), at(40));
    assert_eq!(caps.append_time(0, 5, at(999)), at(40));
    assert_eq!(
        caps.append_time(0, 3, at(100)),
        at(100),
        "it may be decided"
    );
    assert_eq!(caps.append_time(0, 2, at(101)), at(101));
    assert_eq!(caps.append_time(0, 6, at(101)), at(101));
    assert_eq!(caps.append_time(1, 4, at(101)), at(101));
}

#[test]
fn a_newer_cap_changes_nothing_that_an_older_one_decided() {
    let caps = all(&[range(3, 5, 40, 100), range(0, 9, 20, 200)]);
    assert_eq!(caps.append_time(0, 4, at(300)), at(40));
    assert_eq!(caps.append_time(0, 6, at(300)), at(20));
    assert_eq!(caps.append_time(0, 6, at(150)), at(150));
}

#[test]
fn caps_that_are_empty_too_many_or_out_of_order_are_refused() {
    let mut caps = all(&[range(0, 0, 1, 7)]);
    let empty = CapError::Empty { first: 4, last: 3 };
    assert_eq!(caps.add(range(4, 3, 1, 9)), Err(empty));
    let above = at(6);
    let newest = at(7);
    let out_of_order = CapError::OutOfOrder { above, newest };
    assert_eq!(caps.add(range(1, 1, 1, 6)), Err(out_of_order));
    for _ in 1..CappedRanges::MOST {
        caps.add(range(1, 1, 1, 7)).expect("there is room");
    }
    let most = CappedRanges::MOST;
    assert_eq!(caps.add(range(1, 1, 1, 7)), Err(CapError::TooMany { most }));
    assert_eq!(caps.iter().count(), most);
}

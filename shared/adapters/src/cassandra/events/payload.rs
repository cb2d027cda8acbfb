//! The one cell of an event (R8): which record it came from, and what it does. Of several copies
//! the store keeps the one with the largest write timestamp, then with the largest bytes: the
//! smallest effective time, partition and offset, since all three are turned round.

use quipu_core::{
    event::{LogPosition, Mutation},
    time::Micros,
};

const LENGTH: usize = 21;
const ADD: u8 = 0;
const CLEAR: u8 = 1;

/// The bytes of a cell: ~partition, ~offset, kind, delta, each big-endian.
pub(super) fn encode(mutation: Mutation, source: LogPosition) -> [u8; LENGTH] {
    let (kind, delta) = match mutation {
        Mutation::Add(delta) => (ADD, delta),
        Mutation::Clear => (CLEAR, 0),
    };
    let mut cell = [0; LENGTH];
    cell[..4].copy_from_slice(&(!source.partition).to_be_bytes());
    cell[4..12].copy_from_slice(&(!source.offset).to_be_bytes());
    cell[12] = kind;
    cell[13..].copy_from_slice(&delta.to_be_bytes());
    cell
}

/// The timestamp that a cell is written with. Cassandra takes every one but the smallest.
pub(super) fn write_timestamp(effective_time: Micros) -> i64 {
    effective_time.get().checked_neg().unwrap_or(i64::MAX)
}

/// Reads a cell with its write timestamp.
pub(super) fn decode(cell: &[u8], written: i64) -> Result<(Mutation, LogPosition), String> {
    let cell: &[u8; LENGTH] = cell
        .try_into()
        .map_err(|_| format!("its payload has {} bytes, not {LENGTH}", cell.len()))?;
    let (partition, rest) = cell.split_first_chunk().expect("21 bytes are more than 4");
    let (offset, rest) = rest.split_first_chunk().expect("17 bytes are more than 8");
    let (kind, delta) = rest
        .split_first_chunk::<1>()
        .expect("9 bytes are more than 1");
    let delta = i64::from_be_bytes(delta.try_into().expect("8 bytes are left"));
    let mutation = match (kind, delta) {
        (&[ADD], delta) => Mutation::Add(delta),
        (&[CLEAR], 0) => Mutation::Clear,
        (kind, _) => return Err(format!("its payload has the unknown kind {kind:?}")),
    };
    let source = LogPosition {
        effective_time: Micros::new(written.checked_neg().unwrap_or(i64::MAX)),
        partition: !u32::from_be_bytes(*partition),
        offset: !u64::from_be_bytes(*offset),
    };
    Ok((mutation, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn positions() -> impl Strategy<Value = LogPosition> {
        let effective = prop_oneof![0..3_i64, (i64::MIN + 1)..=i64::MAX];
        let partition = prop_oneof![0..3_u32, any::<u32>()];
        let offset = prop_oneof![0..3_u64, any::<u64>()];
        (effective, partition, offset).prop_map(|(effective, partition, offset)| LogPosition {
            effective_time: Micros::new(effective),
            partition,
            offset,
        })
    }

    proptest! {
        #[test]
        fn a_cell_is_read_as_it_was_written(source in positions(), delta in any::<i64>()) {
            for mutation in [Mutation::Add(delta), Mutation::Clear] {
                let written = write_timestamp(source.effective_time);
                let read = decode(&encode(mutation, source), written);
                prop_assert_eq!(read, Ok((mutation, source)));
            }
        }

        #[test]
        fn the_cell_that_wins_is_of_the_first_record(a in positions(), b in positions()) {
            let strength = |source: LogPosition| {
                (write_timestamp(source.effective_time), encode(Mutation::Clear, source))
            };
            prop_assert_eq!(a.cmp(&b), strength(b).cmp(&strength(a)));
        }
    }

    #[test]
    fn a_cell_of_another_form_is_refused() {
        let source = LogPosition {
            effective_time: Micros::new(1),
            partition: 0,
            offset: 0,
        };
        let mut cell = encode(Mutation::Add(1), source);
        assert!(decode(&cell[1..], 0).is_err());
        cell[12] = 2;
        assert!(decode(&cell, 0).is_err());
        cell[12] = CLEAR;
        assert!(decode(&cell, 0).is_err(), "a clear has no delta");
    }
}

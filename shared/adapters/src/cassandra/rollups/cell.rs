//! A checkpoint as one cell, so that generation, count and time are never of two checkpoints.
//! Cassandra keeps the cell with the largest write timestamp, then with the largest bytes; both
//! rise with (generation, last rollup), so an older checkpoint never wins (R15).

use quipu_core::{
    aggregate::Count,
    checkpoint::{Checkpoint, Generation},
    time::Micros,
};

const LENGTH: usize = 26;
const SIGN: u64 = 1 << 63;

/// The bytes of a cell: generation, last rollup with its sign bit turned, count; big-endian.
pub(super) fn encode(checkpoint: &Checkpoint) -> [u8; LENGTH] {
    let mut cell = [0; LENGTH];
    let last_rollup = checkpoint.last_rollup.get().cast_unsigned() ^ SIGN;
    cell[..2].copy_from_slice(&checkpoint.generation.get().to_be_bytes());
    cell[2..10].copy_from_slice(&last_rollup.to_be_bytes());
    cell[10..].copy_from_slice(&checkpoint.count.get().to_be_bytes());
    cell
}

/// Reads a cell.
pub(super) fn decode(cell: &[u8]) -> Result<Checkpoint, String> {
    let cell: &[u8; LENGTH] = cell
        .try_into()
        .map_err(|_| format!("it has {} bytes, not {LENGTH}", cell.len()))?;
    let (generation, rest) = cell.split_first_chunk().expect("26 bytes are more than 2");
    let (last_rollup, count) = rest.split_first_chunk().expect("24 bytes are more than 8");
    let count = i128::from_be_bytes(count.try_into().expect("16 bytes are left"));
    let generation = u16::from_be_bytes(*generation);
    let last_rollup = u64::from_be_bytes(*last_rollup) ^ SIGN;
    Ok(Checkpoint {
        generation: Generation::new(generation)
            .ok_or_else(|| format!("{generation} is no generation"))?,
        count: Count::new(count),
        last_rollup: Micros::new(last_rollup.cast_signed()),
    })
}

/// A time as a write timestamp. Cassandra takes every one but the smallest.
pub(super) fn write_timestamp(time: Micros) -> i64 {
    time.get().max(i64::MIN + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checkpoints() -> impl Strategy<Value = Checkpoint> {
        let time = prop_oneof![-2..3_i64, any::<i64>()];
        (0..Generation::LIMIT, any::<i128>(), time).prop_map(|(generation, count, time)| {
            Checkpoint {
                generation: Generation::new(generation).expect("below the limit"),
                count: Count::new(count),
                last_rollup: Micros::new(time),
            }
        })
    }

    proptest! {
        #[test]
        fn a_cell_is_read_as_it_was_written(checkpoint in checkpoints()) {
            prop_assert_eq!(decode(&encode(&checkpoint)), Ok(checkpoint));
        }

        #[test]
        fn the_checkpoint_that_supersedes_wins(a in checkpoints(), b in checkpoints()) {
            let strength = |it: &Checkpoint| (it.write_timestamp(), encode(it));
            if a.supersedes(&b) {
                prop_assert!(strength(&a) > strength(&b), "{a:?} over {b:?}");
            }
        }
    }

    #[test]
    fn a_cell_of_another_form_is_refused() {
        let checkpoint = Checkpoint::origin(Micros::new(7));
        let mut cell = encode(&checkpoint);
        assert!(decode(&cell[1..]).is_err());
        cell[0] = 0x80;
        assert!(decode(&cell).is_err(), "generations end at 2,047");
    }
}

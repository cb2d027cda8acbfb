//! The reading thread: rows to blocks.

use super::{
    block::{ADDS_MOST, Block, Rejected},
    source::{Read, Source, SourceError, Values},
    template::{Layout, RowError},
};
use tokio::sync::mpsc::Sender;

/// Rejected rows are handed on before they take more memory than this.
const REJECTED_BYTES_MOST: usize = 1 << 20;

/// Reads all rows and sends them on in blocks, also those that an earlier run finished: rejected
/// rows follow from the file, and are told again on every run. Returns how many rows there are;
/// fewer when nobody listens any more.
pub(crate) fn read_all(
    mut source: Source,
    layout: &Layout,
    blocks: &Sender<Block>,
) -> Result<u64, SourceError> {
    let mut values = Values::new(layout.columns.len());
    let mut rejected_bytes = 0;
    let mut block = Block::starting_at(0);
    loop {
        let row = block.rows.end;
        let read = source.read(&mut values);
        let bad = match read {
            Ok(Read::Row) => place(&mut block, row, source.line(), layout, &values)
                .err()
                .map(|error| error.to_string()),
            Ok(Read::Bad(reason)) => Some(reason),
            Ok(Read::End) | Err(_) => {
                let rows = block.rows.end;
                let _ = blocks.blocking_send(block);
                return read.map(|_| rows);
            }
        };
        block.rows.end += 1;
        if let Some(reason) = bad {
            let (line, original) = (source.line(), source.original());
            rejected_bytes += reason.len() + original.len();
            block.rejected.push(Rejected {
                line,
                reason,
                original,
            });
        }
        let next = block.rows.end;
        let full = block.adds() + layout.adds_per_row() > ADDS_MOST;
        if full || rejected_bytes > REJECTED_BYTES_MOST {
            rejected_bytes = 0;
            let block = std::mem::replace(&mut block, Block::starting_at(next));
            if blocks.blocking_send(block).is_err() {
                return Ok(next);
            }
        }
    }
}

fn place(
    block: &mut Block,
    row: u64,
    line: u64,
    layout: &Layout,
    values: &Values,
) -> Result<(), RowError> {
    let delta = layout.delta(values)?;
    block.push(row, line, delta, |names, ends| {
        for template in 0..layout.adds_per_row() {
            layout.render(template, values, names)?;
            ends.push(u32::try_from(names.len()).expect("a block's names fit 32 bits"));
        }
        Ok(())
    })
}

//! How much of one stream of adds is under way: what decides whether more is read. Without IO.

use quipu_schemas::v1::StreamAddRequest;
use std::{
    ops::{AddAssign, SubAssign},
    time::Duration,
};

/// What one stream may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Messages under way. With any of these three reached, no more is read, so that what is under
    /// way exceeds them by less than one message.
    pub(super) messages: usize,
    /// Their items.
    pub(super) items: usize,
    /// Their encoded bytes.
    pub(super) bytes: usize,
    /// How long nothing may happen: no message comes, and no answer is taken.
    pub(super) silence: Duration,
    /// How long a message may be under way until its answer is there.
    pub(super) message: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            messages: 32,
            items: 8_000,
            bytes: 2 << 20,
            silence: Duration::from_mins(1),
            message: Duration::from_secs(30),
        }
    }
}

/// What is under way: messages that were read, and whose answers were not handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    messages: usize,
    items: usize,
    bytes: usize,
}

impl Load {
    /// The load that one message is.
    pub(super) fn of(message: &StreamAddRequest) -> Self {
        Self {
            messages: 1,
            items: message.items.len(),
            bytes: prost::Message::encoded_len(message),
        }
    }

    /// Whether another message may be read.
    pub(super) fn leaves_room(self, bounds: &Bounds) -> bool {
        self.messages < bounds.messages && self.items < bounds.items && self.bytes < bounds.bytes
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.items += other.items;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        assert!(
            self.messages >= other.messages,
            "a message ends once: {other:?} of {self:?}"
        );
        self.messages -= other.messages;
        self.items -= other.items;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quipu_schemas::v1::BatchAddItem;

    const BOUNDS: Bounds = Bounds {
        messages: 4,
        items: 10,
        bytes: 200,
        silence: Duration::ZERO,
        message: Duration::ZERO,
    };

    fn message(items: usize, name: usize) -> StreamAddRequest {
        let item = BatchAddItem {
            counter_name: "n".repeat(name),
            ..BatchAddItem::default()
        };
        StreamAddRequest {
            items: vec![item; items],
            ..StreamAddRequest::default()
        }
    }

    #[test]
    fn each_bound_alone_stops_the_reading() {
        for (items, name, read) in [(0, 0, 4), (5, 1, 2), (1, 97, 2), (1, 100, 2), (1, 500, 1)] {
            let mut load = Load::default();
            let mut taken = 0;
            while load.leaves_room(&BOUNDS) {
                load += Load::of(&message(items, name));
                taken += 1;
            }
            assert_eq!(taken, read, "{items} items with names of {name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_under_way_exceeds_no_bound_by_a_message_and_all_of_it_ends(
            sizes in prop::collection::vec((0_usize..12, 0_usize..60, any::<bool>()), 0..60)
        ) {
            let (mut load, mut under_way) = (Load::default(), Vec::new());
            for (items, name, ends) in sizes {
                if load.leaves_room(&BOUNDS) {
                    let one = Load::of(&message(items, name));
                    load += one;
                    under_way.push(one);
                    prop_assert!(load.messages <= BOUNDS.messages);
                    prop_assert!(load.items < BOUNDS.items + one.items.max(1));
                    prop_assert!(load.bytes < BOUNDS.bytes + one.bytes.max(1));
                }
                if ends && !under_way.is_empty() {
                    load -= under_way.remove(0);
                }
            }
            for one in under_way {
                load -= one;
            }
            prop_assert_eq!(load, Load::default());
        }
    }
}

//! The items of one batch: what is settled, and what is sent again. A machine without IO.

use super::BatchItem;
use crate::{
    failure::{Error, Failure},
    mutate::Receipt,
    token::Token,
    verdict::Applied,
};
use quipu_schemas::v1;

/// The items of a batch under way.
#[derive(Debug)]
pub(crate) struct Items {
    items: Vec<Item>,
    /// The places of those to send.
    open: Vec<usize>,
}

#[derive(Debug)]
struct Item {
    add: BatchItem,
    token: Token,
    /// What came of its last attempt, if there was one.
    last: Option<Result<Applied, Failure>>,
    may_be_applied: bool,
}

impl Items {
    /// Items that were never sent, each with its token.
    pub(crate) fn new(items: impl IntoIterator<Item = (BatchItem, Token)>) -> Self {
        let item = |(add, token)| Item {
            add,
            token,
            last: None,
            may_be_applied: false,
        };
        let items: Vec<_> = items.into_iter().map(item).collect();
        let open = (0..items.len()).collect();
        Self { items, open }
    }

    /// Whether there is nothing more to send.
    pub(crate) fn are_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// A call of all that is open.
    pub(crate) fn request(&self, namespace: &str) -> v1::BatchAddCountRequest {
        let item = |at: &usize| {
            let item = &self.items[*at];
            v1::BatchAddItem {
                counter_name: item.add.counter.clone(),
                delta: item.add.delta,
                idempotency_token: Some(item.token.to_proto()),
                item_key: item.add.item_key.clone(),
            }
        };
        v1::BatchAddCountRequest {
            namespace: namespace.to_owned(),
            items: self.open.iter().map(item).collect(),
        }
    }

    /// Takes up the verdicts on what was open, in its order. Open stays what may succeed later, and
    /// what `renew` gives a new token after a refusal as late (R16). Returns the failure to wait
    /// after: the one of those to send again that asks for the longest wait.
    pub(crate) fn take_up(
        &mut self,
        verdicts: Vec<Result<Applied, Failure>>,
        mut renew: impl FnMut(&Token, &Failure) -> Option<Token>,
    ) -> Option<Failure> {
        assert_eq!(verdicts.len(), self.open.len(), "one verdict for each");
        let mut wait_after: Option<Failure> = None;
        let mut still_open = Vec::new();
        for (at, verdict) in self.open.drain(..).zip(verdicts) {
            let item = &mut self.items[at];
            match &verdict {
                Err(failure @ Failure::Late(_)) => {
                    item.may_be_applied = false;
                    if let Some(token) = renew(&item.token, failure) {
                        item.token = token;
                        still_open.push(at);
                    }
                }
                Err(failure) => {
                    item.may_be_applied |= matches!(
                        failure,
                        Failure::Unsettled { .. } | Failure::OutcomeUnknown(_)
                    );
                    if failure.is_transient() {
                        still_open.push(at);
                        let longer = |kept: &Failure| kept.retry_after() < failure.retry_after();
                        if wait_after.as_ref().is_none_or(longer) {
                            wait_after = Some(failure.clone());
                        }
                    }
                }
                Ok(_) => {}
            }
            item.last = Some(verdict);
        }
        self.open = still_open;
        wait_after
    }

    /// The result of each item, once there is to be no other attempt.
    pub(crate) fn end(
        self,
        mut in_the_end: impl FnMut(Failure) -> Failure,
    ) -> Vec<Result<Receipt, Error>> {
        let mut result = |item: Item| {
            let last = item.last.expect("every item is sent once");
            match last {
                Ok(applied) => Ok(Receipt {
                    applied,
                    token: item.token,
                }),
                Err(failure) => Err(Error {
                    failure: in_the_end(failure),
                    may_be_applied: item.may_be_applied,
                    token: Some(Box::new(item.token)),
                }),
            }
        };
        self.items.into_iter().map(&mut result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{failure::Said, retry::Entropy, token::LateMutations};
    use proptest::prelude::*;
    use quipu_core::time::Micros;
    use std::{
        collections::{HashMap, HashSet},
        time::Duration,
    };

    const NOW: Micros = Micros::new(1_000_000);

    fn items(count: u32) -> Items {
        Items::new((0..count).map(|number| {
            let token = Token::make(NOW, Entropy::fixed(u128::from(number)));
            (BatchItem::new(format!("c{number}"), 1), token)
        }))
    }

    fn renew(token: &Token, failure: &Failure) -> Option<Token> {
        let seed = u128::from_str_radix(&token.text().replace('-', ""), 16).unwrap();
        let entropy = Entropy::fixed(seed.wrapping_mul(31) + 7);
        token.renew(failure, NOW, entropy, LateMutations::Renew)
    }

    fn asking(millis: u64) -> Failure {
        Failure::Unsettled {
            said: Said::default(),
            retry_after: Some(Duration::from_millis(millis)),
        }
    }

    #[test]
    fn one_wait_stands_for_all_that_is_sent_again_and_it_is_the_longest() {
        let mut items = items(4);
        let verdicts = vec![
            Err(asking(5)),
            Ok(Applied::Accepted),
            Err(asking(9)),
            Err(asking(7)),
        ];
        assert_eq!(items.take_up(verdicts, renew), Some(asking(9)));
        let names: Vec<_> = items.request("n").items;
        let names: Vec<_> = names
            .iter()
            .map(|item| item.counter_name.as_str())
            .collect();
        assert_eq!(names, ["c0", "c2", "c3"]);
    }

    #[test]
    fn a_refused_item_fails_alone() {
        let mut items = items(2);
        let refused = Failure::invalid("bad");
        items.take_up(vec![Err(refused.clone()), Ok(Applied::Accepted)], renew);
        assert!(items.are_settled());
        let results = items.end(|failure| failure);
        assert_eq!(results[0].as_ref().unwrap_err().failure, refused);
        assert!(!results[0].as_ref().unwrap_err().may_be_applied);
        assert!(results[1].is_ok());
    }

    /// What a server does with an attempt: stores it or not, and answers or not.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Accept,
        AcceptUnheard,
        Lose,
        Late,
        Refuse,
    }

    proptest! {
        #[test]
        fn every_item_counts_at_most_once_and_says_the_truth(
            rounds in prop::collection::vec(prop::collection::vec(
                prop_oneof![
                    Just(Fate::Accept), Just(Fate::AcceptUnheard), Just(Fate::Lose),
                    Just(Fate::Late), Just(Fate::Refuse)
                ], 5), 1..8)
        ) {
            let mut items = items(5);
            // An identity is stored once; one that is stored is never called late (R16).
            let mut stored: HashMap<String, HashSet<String>> = HashMap::new();
            for round in rounds {
                let sent = items.request("n").items;
                if sent.is_empty() {
                    break;
                }
                let verdicts = sent.iter().zip(round).map(|(item, fate)| {
                    let token = item.idempotency_token.clone().unwrap().token;
                    let of_counter = stored.entry(item.counter_name.clone()).or_default();
                    match fate {
                        _ if of_counter.contains(&token) => Ok(Applied::AlreadyApplied),
                        Fate::Accept => {
                            of_counter.insert(token);
                            Ok(Applied::Accepted)
                        }
                        Fate::AcceptUnheard => {
                            of_counter.insert(token);
                            Err(asking(1))
                        }
                        Fate::Lose => Err(asking(1)),
                        Fate::Late => Err(Failure::Late(Said::default())),
                        Fate::Refuse => Err(Failure::invalid("bad")),
                    }
                });
                items.take_up(verdicts.collect(), renew);
            }
            for (number, result) in items.end(|failure| failure).iter().enumerate() {
                let of_counter = stored.get(&format!("c{number}")).map_or(0, HashSet::len);
                prop_assert!(of_counter <= 1);
                match result {
                    Ok(receipt) => {
                        let counted = stored[&format!("c{number}")].contains(receipt.token.text());
                        prop_assert!(counted, "{receipt:?}");
                    }
                    Err(error) => prop_assert!(error.may_be_applied || of_counter == 0),
                }
            }
        }
    }
}

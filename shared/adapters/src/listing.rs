//! Lists the counters of one namespace from rows of all, in the order of their places.

use crate::ports::{CounterPage, ListPosition};
use quipu_core::{event::CounterKey, event::NamespaceId, name::CounterName};

/// A page that is being filled.
#[derive(Debug)]
pub struct Listing {
    namespace: NamespaceId,
    limit: usize,
    /// Rows that may still be looked at.
    budget: usize,
    /// Rows at the first place that an earlier page looked at.
    to_pass: u32,
    position: ListPosition,
    counters: Vec<CounterName>,
}

/// Rows that one page looks at, besides those that it passes over.
pub const EXAMINED: usize = 5_000;

impl Listing {
    /// An empty page of at most `limit` counters.
    ///
    /// # Panics
    /// When the limit is zero: no page would ever go on.
    pub fn new(namespace: NamespaceId, from: ListPosition, limit: usize) -> Self {
        assert!(limit > 0, "a page of no counters never ends");
        Self {
            namespace,
            limit,
            budget: EXAMINED,
            to_pass: from.passed,
            position: from,
            counters: Vec::new(),
        }
    }

    /// Whether the page looks at no more rows.
    pub fn is_full(&self) -> bool {
        self.budget == 0 || self.counters.len() == self.limit
    }

    /// Looks at the next row: the place of a counter, and whether it has a checkpoint. Rows come
    /// from the first place of the page on, in the order of places, and at one place always in the
    /// same order.
    ///
    /// # Panics
    /// When the page is full, or the row comes before the last.
    pub fn examine(&mut self, at: i64, counter: CounterKey, is_rolled_up: bool) {
        assert!(!self.is_full(), "nothing is looked at beyond a full page");
        assert!(at >= self.position.at, "rows come in the order of places");
        if at > self.position.at {
            (self.position, self.to_pass) = (ListPosition { at, passed: 0 }, 0);
        }
        if self.to_pass > 0 {
            self.to_pass -= 1;
            return;
        }
        self.position.passed = self.position.passed.saturating_add(1);
        self.budget -= 1;
        if is_rolled_up && counter.namespace == self.namespace {
            self.counters.push(counter.name);
        }
    }

    /// The page, when there are no more rows.
    pub fn last(self) -> CounterPage {
        CounterPage {
            counters: self.counters,
            next: None,
        }
    }

    /// The page, when there may be more rows.
    pub fn and_more(self) -> CounterPage {
        CounterPage {
            counters: self.counters,
            next: Some(self.position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(namespace: u32, name: &str) -> CounterKey {
        CounterKey {
            namespace: NamespaceId(namespace),
            name: CounterName::new(name).expect("a valid name"),
        }
    }

    /// All pages of a list.
    fn pages(rows: &[(i64, CounterKey)], limit: usize) -> Vec<Vec<String>> {
        let (mut pages, mut from) = (Vec::new(), Some(ListPosition::START));
        while let Some(position) = from {
            let mut listing = Listing::new(NamespaceId(1), position, limit);
            let mut rest = rows.iter().filter(|(at, _)| *at >= position.at);
            let page = loop {
                if listing.is_full() {
                    break listing.and_more();
                }
                match rest.next() {
                    Some((at, counter)) => listing.examine(*at, counter.clone(), true),
                    None => break listing.last(),
                }
            };
            let names = page.counters.iter().map(|name| name.as_str().to_owned());
            pages.push(names.collect());
            from = page.next;
        }
        pages
    }

    #[test]
    fn counters_at_one_place_are_listed_once_whatever_the_pages() {
        let place = |at, namespace, name| (at, counter(namespace, name));
        let rows = [
            place(i64::MIN, 1, "a"),
            place(7, 1, "b"),
            place(7, 2, "other"),
            place(7, 1, "c"),
            place(7, 1, "d"),
            place(i64::MAX, 1, "e"),
        ];
        for limit in 1..7 {
            let pages = pages(&rows, limit);
            assert!(pages.iter().all(|page| page.len() <= limit));
            assert_eq!(pages.concat(), ["a", "b", "c", "d", "e"], "{limit}");
        }
    }

    #[test]
    fn a_page_looks_at_a_bounded_number_of_rows() {
        let others = (0..).take(2 * EXAMINED).map(|at| (at, counter(2, "other")));
        let rows: Vec<_> = others.chain([(i64::MAX, counter(1, "a"))]).collect();
        let expected: [&[&str]; 3] = [&[], &[], &["a"]];
        assert_eq!(pages(&rows, 1_000), expected);
        let together: Vec<_> = rows.into_iter().map(|(_, counter)| (3, counter)).collect();
        assert_eq!(pages(&together, 1_000), expected, "all at one place");
    }
}

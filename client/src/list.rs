//! The list of a namespace's counters, page by page.

use crate::{
    call::{Calling, Kind, within},
    client::Client,
    failure::Error,
};
use quipu_schemas::v1::{self, counter_client::CounterClient};

/// The counters of a namespace, page by page, in no order that means anything. One that is there from
/// the beginning is listed, seldom twice.
#[derive(Clone, Debug)]
#[must_use = "nothing is asked before `next_page`"]
pub struct Counters {
    client: Client,
    namespace: String,
    page_size: i32,
    /// Where the next page begins; `None` after the last one.
    next: Option<String>,
}

impl Client {
    /// Lists the counters of a namespace that have been rolled up, some seconds after their first
    /// add.
    ///
    /// ```no_run
    /// # async fn example(client: quipu_client::Client) -> Result<(), quipu_client::Error> {
    /// let mut counters = client.counters("default");
    /// while let Some(names) = counters.next_page().await? {
    ///     for name in names {
    ///         println!("{name}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn counters(&self, namespace: &str) -> Counters {
        Counters {
            client: self.clone(),
            namespace: namespace.to_owned(),
            page_size: Counters::MOST,
            next: Some(String::new()),
        }
    }
}

impl Counters {
    /// The most names of a page.
    const MOST: i32 = 1_000;

    /// Asks for at most this many names with each page, from 1 on: 1,000 by default, which is the
    /// most that a page has.
    pub fn page_size(self, names: u32) -> Self {
        let page_size = i32::try_from(names).unwrap_or(Self::MOST).min(Self::MOST);
        Self { page_size, ..self }
    }

    /// Begins at a [`Self::page_token`] of the same namespace.
    pub fn from_page(self, token: impl Into<String>) -> Self {
        let next = Some(token.into());
        Self { next, ..self }
    }

    /// Where the next page begins, to go on from later; `None` after the last page.
    pub fn page_token(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The next page, or `None` after the last one. A page may be short or empty, and not the last.
    /// After an error the same page is asked for again.
    ///
    /// # Errors
    /// When the server refuses, as for a `BEST_EFFORT` namespace, which has no list, or does not
    /// answer in time.
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>, Error> {
        let Some(page_token) = self.next.clone() else {
            return Ok(None);
        };
        let timeout = self.client.shared.options.timeout;
        let mut calling = Calling::new(&self.client, Kind::Reads, timeout);
        let request = v1::ListCountersRequest {
            namespace: self.namespace.clone(),
            page_size: self.page_size,
            page_token,
        };
        let send = |channel, patience| {
            let request = within(patience, request.clone());
            async move {
                let mut counter = CounterClient::new(channel);
                Ok(Ok(counter.list_counters(request).await?.into_inner()))
            }
        };
        let answer = calling.call(&send).await;
        let page = answer.map_err(|failure| calling.error(failure))?;
        self.next = Some(page.next_page_token).filter(|token| !token.is_empty());
        Ok(Some(page.counter_names))
    }
}

//! The client of Quipu: counts each event once, whatever has to be sent again.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use quipu_client::{Client, ClientOptions};
//!
//! let client = Client::connect(ClientOptions::new("http://127.0.0.1:7070")).await?;
//! client.add("default", "page_views", 5).await?;
//! let read = client.get("default", "page_views").await?;
//! println!("{} as of {:?}", read.count, read.complete_through);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does by itself
//!
//! - It makes an **idempotency token** for each mutation, and keeps it through all attempts. A
//!   caller whose retries outlive the process brings its own: [`Mutation::with_token`].
//! - It **retries** what may succeed later (no connection, no answer, `UNAVAILABLE`,
//!   `DEADLINE_EXCEEDED`), with exponential back-off and full jitter, not before the server asks to,
//!   up to the call's [timeout](ClientOptions::timeout) and within a [budget](RetryBudget).
//! - After a definitive refusal as **late** it makes a new token, if it made the one before
//!   ([`LateMutations`]): nothing can count twice. What nobody can tell any more is an error of its
//!   own, [`Failure::OutcomeUnknown`].
//! - It **hedges** when told to ([`ClientOptions::hedge_after`]): a second attempt with the same
//!   token while the first is under way.
//! - It **batches** when told to ([`Client::batcher`]), and sends batches over one lasting call
//!   ([`Client::add_stream`]).
//!
//! Counters of a `BEST_EFFORT` namespace count a mutation as often as it comes. So before the client
//! sends anything a second time that may have been applied, it learns the kind of the namespace from
//! its document, and remembers it for a minute; there it sends once, and says
//! [`Failure::OutcomeUnknown`] when it does not know.
//!
//! # What to do after an error
//!
//! [`Failure`] says it, one kind for each thing to do. [`Error::may_be_applied`] says whether an
//! attempt before may count, and [`Error::token`] has the token to ask again with.

#[cfg(doctest)]
#[doc = include_str!("../../docs/client.md")]
mod guide {}

mod batch;
mod batcher;
mod budget;
mod call;
mod changes;
mod client;
mod clock;
mod clusters;
mod control;
mod failure;
mod hedge;
#[cfg(feature = "kafka")]
mod kafka;
mod list;
mod modes;
mod mutate;
mod options;
mod read;
mod retry;
mod stream;
mod tls;
mod token;
mod transport;
mod verdict;

pub use batch::{BATCH_MOST, BatchItem};
pub use batcher::{Batcher, BatcherOptions, FailedAdd, Pending, Report};
pub use budget::RetryBudget;
pub use changes::{Change, InForce};
pub use client::Client;
pub use clusters::Clusters;
pub use control::Namespaces;
pub use failure::{Error, Failure, Said};
#[cfg(feature = "kafka")]
pub use kafka::KafkaOptions;
pub use list::Counters;
pub use mutate::{Added, Mutation, Receipt};
pub use options::{ClientOptions, Event, OptionsError};
pub use quipu_core::time::Micros;
pub use quipu_schemas::v1;
pub use read::{Count, Precision};
pub use retry::{Backoff, Entropy};
pub use stream::AddStream;
pub use token::{LateMutations, Token};
pub use verdict::Applied;

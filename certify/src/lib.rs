//! Certifies a running installation: a producer that keeps a ledger attempts adds and clears while
//! whatever may break is broken, and in the end everything that is there is compared with it.

mod entry;
mod failure;
mod journal;
pub mod ledger;
mod load;
mod observed;
mod plan;
mod poison;
mod reads;
pub mod report;
mod run;
mod send;
mod stores;
#[cfg(test)]
mod testing;
mod timeline;
mod topics;
pub mod verdict;

pub use entry::{Entry, Heard};
pub use failure::Failure;
pub use journal::{Injected, Journal};
pub use load::Volume;
pub use observed::{Counted, Counts, Logged, Observed, Place, Shown};
pub use plan::Mix;
pub use run::{Outcome, Recovery, Run, run};
pub use timeline::Second;

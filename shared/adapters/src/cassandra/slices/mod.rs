//! Time slices (R19): the catalogue of them, and the tables that their rows lie in.

mod catalogue;
mod dataset;
mod owner;
mod sizes;

pub(super) use catalogue::{Catalogue, Slice, Snapshot};
pub use dataset::CassandraDataset;
pub(super) use dataset::table_name;

//! What a team would use instead, doing the same work on the same machine in the same run.

#[cfg(feature = "cluster")]
pub(crate) mod counter_columns;
pub(crate) mod postgres;

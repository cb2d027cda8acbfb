//! What a team would use instead, doing the same work on the same machine in the same run.

pub(crate) mod postgres;

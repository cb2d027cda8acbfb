//! Tests of the wire formats: what is written can be read again, and what cannot be read is
//! refused with an error that says what is wrong and where.

mod corpus;
mod event;
mod event_json;
mod namespace;
mod signal;
mod timestamp;

//! HTTP/JSON: int64 as strings out and as strings or numbers in, times as RFC 3339.

mod body;
mod change;
mod clusters;
mod dispatch;
mod error;
mod history;
mod json;
#[cfg(test)]
mod openapi;
mod path;
mod reads;

pub(crate) use error::render;
pub(crate) use path::{Call, Counter};

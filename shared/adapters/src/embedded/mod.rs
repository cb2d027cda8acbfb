//! One process, one directory.

mod cache;
mod control;
mod event_store;
mod keys;
mod log;
mod rollup_store;
mod settings;


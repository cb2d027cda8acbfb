//! Redis: the cache of checkpoints, which may lose anything at any time, since the rollup store knows
//! all that it knows; and best-effort counters, which nothing else knows.

mod best_effort;
mod cache;
mod connect;
mod format;
mod script;
mod settings;

pub use best_effort::RedisBestEffort;
pub use cache::RedisCache;
pub use settings::{RedisSettings, RedisTls, SettingsError};

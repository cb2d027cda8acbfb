//! The cache on Redis. It may lose anything at any time: the rollup store knows all that it knows.

mod cache;
mod connect;
mod format;
mod settings;

pub use cache::RedisCache;
pub use settings::{RedisSettings, RedisTls, SettingsError};

//! The cache on Redis.

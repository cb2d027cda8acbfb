//! One process, one directory.

//! The files of the repository, as tests of them need them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The directory that holds everything.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of a file.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

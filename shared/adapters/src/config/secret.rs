//! Secrets stand in files of their own, never in the configuration.

use super::ConfigError;
use std::{fs, path::Path};

/// Reads a secret: the file's text without the line's end.
pub(super) fn read(key: &str, path: Option<&Path>) -> Result<Option<String>, ConfigError> {
    let Some(path) = path else { return Ok(None) };
    let text = fs::read_to_string(path)
        .map_err(|error| ConfigError::value(key, format!("{}: {error}", path.display())))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        let problem = format!("{} is empty; it must hold the secret", path.display());
        return Err(ConfigError::value(key, problem));
    }
    Ok(Some(secret.to_owned()))
}

/// Checks that a file can be read.
pub(super) fn readable(key: &str, path: Option<&Path>) -> Result<(), ConfigError> {
    let Some(path) = path else { return Ok(()) };
    fs::File::open(path)
        .map(drop)
        .map_err(|error| ConfigError::value(key, format!("{}: {error}", path.display())))
}

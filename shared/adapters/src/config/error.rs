//! What can be wrong with a configuration. Each text names the key, where it stands, and the fix.

use std::{io, path::PathBuf};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration {} is not TOML: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
    /// There is no such key.
    #[error("{origin}: there is no key {key}; did you mean {nearest}?")]
    UnknownKey {
        /// Where it stands.
        origin: String,
        /// The key, as it is written there.
        key: String,
        /// The one that is most like it.
        nearest: String,
    },
    /// A key has a value that it cannot have.
    #[error("{key}{}: {problem}", place(origin.as_deref()))]
    Value {
        /// The key.
        key: String,
        /// Where the value stands, if it is known.
        origin: Option<String>,
        /// What is wrong, and what it may be.
        problem: String,
    },
}

fn place(origin: Option<&str>) -> String {
    origin.map_or(String::new(), |origin| format!(" (from {origin})"))
}

impl ConfigError {
    /// A value that is out of its range.
    pub fn value(key: &str, problem: impl Into<String>) -> Self {
        Self::Value {
            key: key.to_owned(),
            origin: None,
            problem: problem.into(),
        }
    }
}

/// Refuses a value outside of its range.
pub(super) fn within<T: PartialOrd + Copy>(
    key: &str,
    value: T,
    (least, most): (T, T),
    show: impl Fn(T) -> String,
) -> Result<(), ConfigError> {
    if value < least || value > most {
        let (value, least, most) = (show(value), show(least), show(most));
        let problem = format!("{value} is not between {least} and {most}");
        return Err(ConfigError::value(key, problem));
    }
    Ok(())
}

/// A duration as people write it.
pub(super) fn show_duration(duration: std::time::Duration) -> String {
    humantime::format_duration(duration).to_string()
}

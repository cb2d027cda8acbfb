//! Who changed a namespace, as the caller says: a note for people, and no proof.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who made a change: 1 to 128 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Author(String);

/// Why a text names no author. The text says what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorError {
    /// It is empty or too long.
    #[error("the author has {0} bytes; give 1 to {max}", max = Author::MAX_BYTES)]
    Length(usize),
    /// It could move the cursor of a terminal that shows it.
    #[error("the author holds a control character at byte {0}; remove it")]
    Control(usize),
}

impl Author {
    /// The longest text.
    pub const MAX_BYTES: usize = 128;

    /// Checks a text.
    ///
    /// # Errors
    /// When it is empty, too long, or holds a control character.
    pub fn new(text: impl Into<String>) -> Result<Self, AuthorError> {
        let text = text.into();
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return Err(AuthorError::Length(text.len()));
        }
        match text.char_indices().find(|(_, char)| char.is_control()) {
            Some((at, _)) => Err(AuthorError::Control(at)),
            None => Ok(Self(text)),
        }
    }

    /// The author of what every installation begins with.
    pub fn setup() -> Self {
        Self("setup".to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Author {
    /// Nobody said who.
    fn default() -> Self {
        Self("unknown".to_owned())
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Author {
    type Error = AuthorError;

    fn try_from(text: String) -> Result<Self, AuthorError> {
        Self::new(text)
    }
}

impl From<Author> for String {
    fn from(author: Author) -> Self {
        author.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_a_short_line_of_text() {
        for text in ["a", "ci@build-7", "Ĵaŭdo", &"x".repeat(128)] {
            assert_eq!(Author::new(text).expect("allowed").as_str(), text);
        }
        assert_eq!(Author::new(""), Err(AuthorError::Length(0)));
        assert_eq!(Author::new("x".repeat(129)), Err(AuthorError::Length(129)));
        assert_eq!(Author::new("é\n"), Err(AuthorError::Control(2)));
        let stored = serde_json::from_str::<Author>(r#""a\u0007""#);
        stored.expect_err("what is stored is checked as well");
    }
}

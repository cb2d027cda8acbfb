//! Who changed a namespace: as the caller says, which is a note for people and no proof; and by which
//! API key, which the server has verified.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who made a change, as it is stored: `NAME`, or `key:ID NAME` where a key was verified. No name
/// begins with `key:`, so nobody can pass for the holder of a key.
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
    /// It looks like what only the server may say.
    #[error("the author begins with key:, which marks verified API keys; leave that out")]
    LikeKey,
}

/// What stands before a verified key.
const KEY: &str = "key:";

impl Author {
    /// The longest name.
    pub const MAX_BYTES: usize = 128;
    /// The longest id of a key.
    pub const MAX_KEY_BYTES: usize = 64;

    /// Checks a name that a caller gives: 1 to 128 bytes of UTF-8 without control characters.
    ///
    /// # Errors
    /// When it is empty, too long, holds a control character, or begins with `key:`.
    pub fn new(name: impl Into<String>) -> Result<Self, AuthorError> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            return Err(AuthorError::Length(name.len()));
        }
        if name.starts_with(KEY) {
            return Err(AuthorError::LikeKey);
        }
        Self::without_controls(name)
    }

    /// Reads what was stored.
    ///
    /// # Errors
    /// When nothing like it is ever stored.
    pub fn stored(text: impl Into<String>) -> Result<Self, AuthorError> {
        let text = text.into();
        match text.strip_prefix(KEY) {
            None => Self::new(text),
            Some(keyed) if keyed.len() > Self::MAX_KEY_BYTES + 1 + Self::MAX_BYTES => {
                Err(AuthorError::Length(text.len()))
            }
            Some(_) => Self::without_controls(text),
        }
    }

    fn without_controls(text: String) -> Result<Self, AuthorError> {
        match text.char_indices().find(|(_, char)| char.is_control()) {
            Some((at, _)) => Err(AuthorError::Control(at)),
            None => Ok(Self(text)),
        }
    }

    /// The same, who brought the API key with this id, which the server has verified.
    ///
    /// # Panics
    /// When it has a key already, or the id is none: 1 to 64 bytes without white space or control
    /// characters.
    #[must_use]
    pub fn with_key(&self, id: &str) -> Self {
        assert!(self.key().is_none(), "a call brings one key: {self}");
        let fits = (1..=Self::MAX_KEY_BYTES).contains(&id.len());
        let is_word = !id.contains(|it: char| it.is_whitespace() || it.is_control());
        assert!(fits && is_word, "{id:?} is no id of a key");
        Self(format!("{KEY}{id} {self}"))
    }

    /// The author of what every installation begins with.
    pub fn setup() -> Self {
        Self("setup".to_owned())
    }

    /// The text, as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of the key that was verified, if there was one.
    pub fn key(&self) -> Option<&str> {
        self.parts().0
    }

    /// The name, as the caller said it.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (Option<&str>, &str) {
        let Some(keyed) = self.0.strip_prefix(KEY) else {
            return (None, &self.0);
        };
        let (id, name) = keyed.split_once(' ').unwrap_or((keyed, ""));
        (Some(id), name)
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
        Self::stored(text)
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

    #[test]
    fn nobody_passes_for_the_holder_of_a_key() {
        let keyed = Author::new("ana maria").expect("a name").with_key("ci-1");
        assert_eq!((keyed.key(), keyed.name()), (Some("ci-1"), "ana maria"));
        assert_eq!(keyed.to_string(), "key:ci-1 ana maria");
        assert_eq!(Author::stored(keyed.to_string()).as_ref(), Ok(&keyed));
        assert_eq!(Author::new(keyed.to_string()), Err(AuthorError::LikeKey));
        let named = Author::new("ana key:ci-1").expect("a name");
        assert_eq!((named.key(), named.name()), (None, "ana key:ci-1"));
    }

    #[test]
    fn the_longest_key_and_name_are_read_again() {
        let name = Author::new("x".repeat(Author::MAX_BYTES)).expect("a name");
        let keyed = name
            .with_key(&"k".repeat(Author::MAX_KEY_BYTES))
            .to_string();
        Author::stored(keyed.clone()).expect("it is stored like this");
        let longer = keyed + "x";
        assert_eq!(
            Author::stored(&longer),
            Err(AuthorError::Length(longer.len()))
        );
    }
}

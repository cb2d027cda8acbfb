//! Names and tokens, valid by construction: whoever holds one need not check it again.

use std::{borrow::Borrow, fmt, sync::Arc};

/// Why a name was refused. The message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A namespace that does not match its pattern.
    #[error(
        "namespace {0:?} must match [a-z][a-z0-9_-]{{0,62}}: start with a lower-case letter, \
         then at most 62 lower-case letters, digits, '_' or '-'"
    )]
    Namespace(String),
    /// A counter name outside 1 to 1,024 bytes.
    #[error("counter name has {0} bytes; it must have 1 to {max}", max = CounterName::MAX_BYTES)]
    CounterLength(usize),
    /// A counter name that holds U+0000.
    #[error("counter name holds the character U+0000 at byte {0}; remove it")]
    CounterNul(usize),
    /// A token outside 1 to 128 bytes.
    #[error("idempotency token has {0} bytes; it must have 1 to {max}", max = Token::MAX_BYTES)]
    TokenLength(usize),
    /// An item key over 128 bytes.
    #[error("item key has {0} bytes; it may have at most {max}", max = ItemKey::MAX_BYTES)]
    ItemKeyLength(usize),
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text, byte for byte as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_type!(
    /// The name of a namespace: `[a-z][a-z0-9_-]{0,62}`.
    Namespace
);
text_type!(
    /// The name of a counter: 1 to 1,024 bytes of UTF-8 without U+0000, compared byte for byte
    /// (two Unicode normal forms of one word are two counters).
    CounterName
);
text_type!(
    /// The client's token of one mutation: 1 to 128 bytes of UTF-8.
    Token
);
text_type!(
    /// Tells apart several mutations under one token: 0 to 128 bytes of UTF-8.
    ItemKey
);

impl Namespace {
    /// Checks a namespace's name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let mut bytes = name.bytes();
        let starts_well = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
        let goes_on_well =
            bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
        if starts_well && goes_on_well && name.len() <= 63 {
            Ok(Self(name.into()))
        } else {
            Err(NameError::Namespace(name.chars().take(80).collect()))
        }
    }
}

impl CounterName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Checks a counter's name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            return Err(NameError::CounterLength(name.len()));
        }
        if let Some(at) = name.bytes().position(|b| b == 0) {
            return Err(NameError::CounterNul(at));
        }
        Ok(Self(name.into()))
    }
}

impl Token {
    /// The longest token, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks a token.
    pub fn new(token: &str) -> Result<Self, NameError> {
        if token.is_empty() || token.len() > Self::MAX_BYTES {
            return Err(NameError::TokenLength(token.len()));
        }
        Ok(Self(token.into()))
    }
}

impl ItemKey {
    /// The longest item key, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks an item key.
    pub fn new(key: &str) -> Result<Self, NameError> {
        if key.len() > Self::MAX_BYTES {
            return Err(NameError::ItemKeyLength(key.len()));
        }
        Ok(Self(key.into()))
    }
}

//! The secret of a key, and what is stored of it.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// What every secret begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "quipu_";
/// 256 bits: nobody guesses them.
const RANDOM_BYTES: usize = 32;
const HASH_PREFIX: &str = "sha256:";

/// A secret: `quipu_<id>_<64 hexadecimal digits>`. It is shown once and never stored.
pub struct Secret(String);

impl Secret {
    /// A new one, for the key of this id.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn generate(id: &str) -> Result<Self, getrandom::Error> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random)?;
        let random = base16ct::lower::encode_string(&random);
        Ok(Self(format!("{PREFIX}{id}_{random}")))
    }

    /// The text that clients send.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.0)
    }
}

/// The id of the key that a presented text claims to be of, without a look at its secret part.
pub(super) fn claimed_id(presented: &str) -> Option<&str> {
    let (id, _secret) = presented.strip_prefix(PREFIX)?.split_once('_')?;
    Some(id)
}

/// The SHA-256 of a whole secret.
///
/// A fast hash is the right one here. Slow ones (argon2, bcrypt) make guessing dear where people
/// choose what is to be guessed; these secrets are 256 random bits, which no speed of guessing
/// finds, and a slow hash on every call would only serve whoever wants to keep the server busy.
#[derive(Clone, Copy)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of a text that was presented.
    pub(super) fn of(presented: &str) -> Self {
        Self(Sha256::digest(presented.as_bytes()).into())
    }

    /// Whether two are the same, in a time that does not depend on where they differ.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Reads `sha256:<64 hexadecimal digits>`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = text.strip_prefix(HASH_PREFIX)?;
        let read = base16ct::lower::decode(digits, &mut bytes).ok()?;
        (read.len() == bytes.len()).then_some(Self(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = base16ct::lower::encode_string(&self.0);
        write!(f, "{HASH_PREFIX}{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_names_its_key_and_no_two_are_the_same() {
        let secrets = [(); 2].map(|()| Secret::generate("ci-1").unwrap());
        assert_eq!(claimed_id(secrets[0].reveal()), Some("ci-1"));
        assert_eq!(secrets[0].reveal().len(), "quipu_ci-1_".len() + 64);
        assert_ne!(secrets[0].reveal(), secrets[1].reveal());
        assert!(!secrets[0].hash().is(&secrets[1].hash()));
    }

    #[test]
    fn what_is_stored_is_read_back_and_is_the_hash_of_the_whole_text() {
        let stored = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Hash::of("abc").to_string(), stored);
        assert!(Hash::parse(stored).unwrap().is(&Hash::of("abc")));
        for other in [&stored[1..], &stored[..70], "sha256:", "", "sha256:zz"] {
            assert!(Hash::parse(other).is_none(), "{other}");
        }
        assert!(Hash::parse(&format!("{stored}00")).is_none());
    }

    #[test]
    fn what_is_no_secret_claims_no_id() {
        for text in ["", "quipu_", "quipu_ci", "ci_x", "Quipu_ci_x"] {
            assert_eq!(claimed_id(text), None, "{text}");
        }
    }
}

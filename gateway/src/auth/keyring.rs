//! The keys, as their file declares them.

use super::secret::{Hash, claimed_id};
use quipu_core::{name::Namespace, time::Micros};
use quipu_schemas::timestamp::from_rfc3339;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The largest file of keys, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_ID_BYTES: usize = 64;

/// What a key may do, in the namespaces that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Reads: of counters, of events, of the namespace's document.
    Read,
    /// Mutations: adds and clears.
    Write,
    /// Creates, changes and deletes the namespaces themselves.
    Admin,
    /// `GET /metrics`, which concerns no namespace.
    Metrics,
}

/// A key as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Its name: 1 to 64 of `a-z 0-9 -`.
    pub id: String,
    /// The hash of its secret.
    pub hash: String,
    /// The namespaces that it is for: names, or the beginning of names before a `*`.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// What it may do there.
    pub allow: Vec<Permission>,
    /// When it ends, in RFC 3339; never, without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// The file: a `[[key]]` for each.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysFile {
    #[serde(default, rename = "key")]
    keys: Vec<KeyEntry>,
}

/// A key that was checked.
pub(crate) struct Key {
    pub(super) id: String,
    hash: Hash,
    namespaces: Vec<Scope>,
    allow: Vec<Permission>,
    expires: Micros,
}

enum Scope {
    Exactly(String),
    Beginning(String),
}

/// Why a presented text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// No key has this secret.
    Invalid,
    /// A key has, but has ended.
    Expired,
}

/// All keys, by their ids.
#[derive(Default)]
pub struct Keyring(BTreeMap<String, Arc<Key>>);

impl Keyring {
    /// Reads the text of a file of keys.
    ///
    /// # Errors
    /// Says which key is wrong, and why. It never repeats the text: somebody may have put a secret
    /// into it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys = BTreeMap::new();
        for entry in KeyEntry::read_all(text)? {
            let key = entry
                .check()
                .map_err(|why| format!("the key {:?}: {why}", entry.id))?;
            if keys.insert(entry.id.clone(), Arc::new(key)).is_some() {
                return Err(format!("two keys have the id {:?}", entry.id));
            }
        }
        Ok(Self(keys))
    }

    /// The key that a client presented.
    pub(super) fn find(&self, presented: &str, now: Micros) -> Result<Arc<Key>, NoKey> {
        // Hashed before anything is known, so that ids that exist take no longer than others.
        let hash = Hash::of(presented);
        let claimed = claimed_id(presented).and_then(|id| self.0.get(id));
        let key = claimed.ok_or(NoKey::Invalid)?;
        key.while_it_lasts(&hash, now)
    }

    /// A key that was found before, as it is now: it may have ended, or been taken away, or may do
    /// something else.
    pub(super) fn find_again(&self, before: &Key, now: Micros) -> Result<Arc<Key>, NoKey> {
        let key = self.0.get(&before.id).ok_or(NoKey::Invalid)?;
        key.while_it_lasts(&before.hash, now)
    }
}

impl Key {
    fn while_it_lasts(self: &Arc<Self>, hash: &Hash, now: Micros) -> Result<Arc<Self>, NoKey> {
        if !self.hash.is(hash) {
            return Err(NoKey::Invalid);
        }
        // Only who knows the secret learns that it has ended.
        if now >= self.expires {
            return Err(NoKey::Expired);
        }
        Ok(Arc::clone(self))
    }

    /// Whether a namespace is one of its own, whether it exists or not.
    pub(super) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|scope| match scope {
            Scope::Exactly(name) => name == namespace,
            Scope::Beginning(prefix) => namespace.starts_with(prefix),
        })
    }

    /// Whether every namespace there could be is one of its own.
    pub(super) fn covers_all(&self) -> bool {
        let mut scopes = self.namespaces.iter();
        scopes.any(|scope| matches!(scope, Scope::Beginning(prefix) if prefix.is_empty()))
    }

    /// Whether it may do this in the namespaces that it covers.
    pub(super) fn allows(&self, permission: Permission) -> bool {
        self.allow.contains(&permission)
    }
}

impl KeyEntry {
    /// The entries of a file's text, whose fields are not checked yet.
    ///
    /// # Errors
    /// Says where the text is no file of keys, without repeating it.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let file = toml::from_str::<KeysFile>(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            // Such a message quotes values, and somebody may have put a secret where none belongs.
            match error.message() {
                quoting if quoting.contains("quipu_") => format!("line {line} is no part of a key"),
                message => format!("line {line}: {message}"),
            }
        })?;
        Ok(file.keys)
    }

    /// The entry as it is appended to a file.
    ///
    /// # Panics
    /// Never: all of it is text.
    pub fn to_toml(&self) -> String {
        let file = KeysFile {
            keys: vec![self.clone()],
        };
        toml::to_string(&file).expect("text is TOML")
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Names the field, and what it may be.
    pub fn is_valid(&self) -> Result<(), String> {
        self.check().map(drop)
    }

    fn check(&self) -> Result<Key, String> {
        let of_ids = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let length = self.id.len();
        if length == 0 || length > MAX_ID_BYTES || !self.id.bytes().all(of_ids) {
            return Err(format!("an id is 1 to {MAX_ID_BYTES} of a-z, 0-9 and -"));
        }
        let hash = Hash::parse(&self.hash)
            .ok_or("hash is not sha256: and 64 hexadecimal digits, as quipu key create makes it")?;
        if self.allow.is_empty() {
            return Err("allow is empty; it lists read, write, admin, metrics".to_owned());
        }
        if self.namespaces.is_empty() && self.allow != [Permission::Metrics] {
            return Err("namespaces is empty; it lists names, or \"*\" for all".to_owned());
        }
        let scopes = self.namespaces.iter().map(|text| scope(text));
        let expires = match &self.expires {
            None => Micros::MAX,
            Some(text) => from_rfc3339(text).map_err(|error| format!("expires: {error}"))?,
        };
        Ok(Key {
            id: self.id.clone(),
            hash,
            namespaces: scopes.collect::<Result<_, _>>()?,
            allow: self.allow.clone(),
            expires,
        })
    }
}

/// Reads a name, or the beginning of names.
fn scope(text: &str) -> Result<Scope, String> {
    let wrong =
        |error| format!("namespaces: {text:?} is no name, or the beginning of one and *: {error}");
    match text.strip_suffix('*') {
        None => {
            let name = Namespace::new(text).map_err(wrong)?;
            Ok(Scope::Exactly(name.as_str().to_owned()))
        }
        Some("") => Ok(Scope::Beginning(String::new())),
        // The beginning of a name is a name, too.
        Some(prefix) => {
            Namespace::new(prefix).map_err(wrong)?;
            Ok(Scope::Beginning(prefix.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::secret::Secret, *};

    fn entry(secret: &Secret) -> KeyEntry {
        KeyEntry {
            id: "ci".to_owned(),
            hash: secret.hash().to_string(),
            namespaces: vec!["billing*".to_owned(), "web".to_owned()],
            allow: vec![Permission::Read, Permission::Write],
            expires: Some("2026-02-01T00:00:00Z".to_owned()),
        }
    }

    #[test]
    fn a_key_is_found_by_its_secret_alone_until_it_ends() {
        let secret = Secret::generate("ci").unwrap();
        let other = Secret::generate("ci").unwrap();
        let keys = Keyring::parse(&entry(&secret).to_toml()).unwrap();
        let end = from_rfc3339("2026-02-01T00:00:00Z").unwrap();
        let found = |text: &str, at| keys.find(text, at).map(|key| key.id.clone());
        assert_eq!(found(secret.reveal(), end.pred()), Ok("ci".to_owned()));
        assert_eq!(found(secret.reveal(), end), Err(NoKey::Expired));
        for wrong in [other.reveal(), "quipu_ci_", "", &secret.reveal()[1..]] {
            assert_eq!(found(wrong, end), Err(NoKey::Invalid), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_found_again_as_it_is_now_or_not_at_all() {
        let secret = Secret::generate("ci").unwrap();
        let end = from_rfc3339("2026-02-01T00:00:00Z").unwrap();
        let keys = Keyring::parse(&entry(&secret).to_toml()).unwrap();
        let before = keys.find(secret.reveal(), end.pred()).unwrap();
        let again = |keys: &Keyring, at| keys.find_again(&before, at).map(|key| key.allow.clone());
        assert_eq!(again(&keys, end.pred()), Ok(before.allow.clone()));
        assert_eq!(again(&keys, end), Err(NoKey::Expired));
        let less = KeyEntry {
            allow: vec![Permission::Read],
            ..entry(&secret)
        };
        let less = Keyring::parse(&less.to_toml()).unwrap();
        assert_eq!(again(&less, end.pred()), Ok(vec![Permission::Read]));
        let other = entry(&Secret::generate("ci").unwrap());
        let other = Keyring::parse(&other.to_toml()).unwrap();
        assert_eq!(again(&other, end.pred()), Err(NoKey::Invalid));
        assert_eq!(again(&Keyring::default(), end.pred()), Err(NoKey::Invalid));
    }

    #[test]
    fn a_key_covers_its_names_and_what_begins_like_its_prefixes() {
        let secret = Secret::generate("ci").unwrap();
        let key = entry(&secret).check().unwrap();
        for (name, covered) in [
            ("billing", true),
            ("billing-eu", true),
            ("billin", false),
            ("web", true),
            ("web2", false),
            ("", false),
        ] {
            assert_eq!(key.covers(name), covered, "{name}");
        }
        assert!(key.allows(Permission::Write) && !key.allows(Permission::Admin));
        let all = KeyEntry {
            namespaces: vec!["*".to_owned()],
            ..entry(&secret)
        };
        let all = all.check().unwrap();
        assert!(all.covers("anything") && all.covers_all());
        assert!(!key.covers_all());
    }

    #[test]
    fn a_file_that_is_wrong_says_where_and_repeats_nothing_of_it() {
        let secret = Secret::generate("ci").unwrap();
        let good = entry(&secret);
        let with = |change: fn(&mut KeyEntry)| {
            let mut entry = good.clone();
            change(&mut entry);
            entry.to_toml()
        };
        for (text, says) in [
            (with(|e| e.id = "a_b".to_owned()), "an id is"),
            (with(|e| e.hash = "sha256:00".to_owned()), "hash"),
            (with(|e| e.namespaces.clear()), "namespaces is empty"),
            (with(|e| e.namespaces = vec!["a*b".to_owned()]), "a*b"),
            (with(|e| e.allow.clear()), "allow is empty"),
            (with(|e| e.expires = Some("soon".to_owned())), "expires"),
            (good.to_toml() + "\n" + &good.to_toml(), "two keys"),
            (good.to_toml() + "secret = \"quipu_ci_0\"\n", "line 7"),
            (good.to_toml().replace("read", "quipu_ci_0"), "line 5"),
            ("[[key]]\nid = quipu_ci_0".to_owned(), "line 2"),
        ] {
            let error = Keyring::parse(&text).err().unwrap();
            assert!(error.contains(says), "{says}: {error}");
            assert!(!error.contains("quipu_ci_"), "{error}");
        }
        assert!(Keyring::parse("").is_ok(), "no key is a file of no keys");
    }
}

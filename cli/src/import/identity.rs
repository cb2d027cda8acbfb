//! Which file this is: the same bytes are the same file, wherever they lie.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    time::SystemTime,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// What identifies a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its size in bytes.
    pub(crate) size: u64,
    /// XXH3-128 of all its bytes, in hexadecimal.
    pub(crate) hash: String,
    /// What its rows' tokens begin with. Persistent: journals and retries rely on it.
    pub(crate) token_prefix: String,
    modified: Option<SystemTime>,
}

impl Identity {
    /// Reads a file once, whole.
    pub(crate) fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other(
                "it is no regular file; to read a stream, give `-` and redirect it",
            ));
        }
        let mut hash = Xxh3::new();
        let mut size = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            size += read as u64;
        }
        Ok(Self::new(size, hash.digest128(), metadata.modified().ok()))
    }

    fn new(size: u64, hash: u128, modified: Option<SystemTime>) -> Self {
        let mut both = size.to_le_bytes().to_vec();
        both.extend_from_slice(&hash.to_le_bytes());
        let token_prefix = format!("{:032x}", xxh3_128(&both))[..16].to_owned();
        Self {
            size,
            hash: format!("{hash:032x}"),
            token_prefix,
            modified,
        }
    }

    /// Whether the file looks as it did when it was hashed.
    pub(crate) fn still_holds(&self, path: &Path) -> io::Result<bool> {
        let metadata = path.metadata()?;
        Ok(metadata.len() == self.size && metadata.modified().ok() == self.modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_prefix_of_a_content_never_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.csv");
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        let identity = Identity::of_file(&path).unwrap();
        assert_eq!(
            (
                identity.size,
                identity.hash.as_str(),
                identity.token_prefix.as_str()
            ),
            (8, "16d51c327d7d2547a793f8d7bbc4457a", "d775eeda5885eeae")
        );
        assert!(identity.still_holds(&path).unwrap());
        std::fs::write(&path, "a,b\n1,2\n3,4\n").unwrap();
        assert!(!identity.still_holds(&path).unwrap());
    }
}

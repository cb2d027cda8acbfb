//! What is made of files that change while the process runs: keys and certificates.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

/// A change takes effect within about this long.
pub const POLL: Duration = Duration::from_secs(1);

/// What the files say now: what they said last, while they cannot be used. Cheap to clone.
pub struct Current<T>(watch::Receiver<State<T>>);

struct State<T> {
    value: Arc<T>,
    problem: Option<String>,
}

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Current<T> {
    /// The newest that could be read.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.borrow().value)
    }

    /// Whether the files can be used as they are now; otherwise what is wrong with them.
    ///
    /// # Errors
    /// Names the file.
    pub fn check(&self) -> Result<(), String> {
        self.0.borrow().problem.clone().map_or(Ok(()), Err)
    }
}

/// Reads files, and makes something of their bytes, which come in the files' order. The future
/// reads them again and again; it ends when nobody has the value any more. Spawn it.
///
/// # Errors
/// When a file cannot be read or used. Names it.
pub fn follow<T: Send + Sync + 'static>(
    files: Vec<PathBuf>,
    limit: u64,
    make: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
) -> Result<(Current<T>, impl Future<Output = ()> + Send + 'static), String> {
    let make = move |read: &[Vec<u8>], files: &[PathBuf]| {
        make(read).map_err(|why| format!("{}: {why}", names(files)))
    };
    let mut last = read(&files, limit)?;
    let value = Arc::new(make(&last, &files)?);
    let (state, current) = watch::channel(State {
        value,
        problem: None,
    });
    let files = Arc::new(files);
    let keep = async move {
        while !state.is_closed() {
            sleep(POLL).await;
            let paths = Arc::clone(&files);
            // Bytes are compared, not times: two writes can bear the same time. Files are small.
            let Ok(found) = tokio::task::spawn_blocking(move || read(&paths, limit)).await else {
                return;
            };
            let outcome = match found {
                Ok(bytes) if bytes == last && state.borrow().problem.is_none() => continue,
                Ok(bytes) => {
                    last = bytes;
                    make(&last, &files)
                }
                Err(why) => Err(why),
            };
            tell(&state, outcome, &names(&files));
        }
    };
    Ok((Current(current), keep))
}

/// Says once what happened, however often it is found again.
fn tell<T>(state: &watch::Sender<State<T>>, made: Result<T, String>, names: &str) {
    match made {
        Ok(value) => {
            tracing::info!("{names} changed: read again");
            state.send_replace(State {
                value: Arc::new(value),
                problem: None,
            });
        }
        Err(why) => {
            let known = state.borrow().problem.as_ref() == Some(&why);
            if !known {
                tracing::error!("{why}; what was read before stays in use");
                state.send_modify(|state| state.problem = Some(why));
            }
        }
    }
}

fn read(files: &[PathBuf], limit: u64) -> Result<Vec<Vec<u8>>, String> {
    let one = |path: &PathBuf| {
        read_one(path, limit).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    files.iter().map(one).collect()
}

fn read_one(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::new();
    let read = fs::File::open(path)?
        .take(limit + 1)
        .read_to_end(&mut bytes)?;
    if read as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number in a file.
    fn number(read: &[Vec<u8>]) -> Result<u32, String> {
        let text = String::from_utf8_lossy(&read[0]);
        text.trim().parse().map_err(|error| format!("{error}"))
    }

    async fn until(what: &str, holds: impl Fn() -> bool) {
        for _ in 0..100 {
            if holds() {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("{what} did not come true");
    }

    #[tokio::test]
    async fn a_change_is_seen_and_a_file_that_cannot_be_used_keeps_what_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let (current, keep) = follow(vec![path.clone()], 10, number).unwrap();
        let kept = tokio::spawn(keep);
        assert_eq!((*current.get(), current.check()), (1, Ok(())));
        fs::write(&path, "2").unwrap();
        until("the change", || *current.get() == 2).await;
        fs::write(&path, "two").unwrap();
        until("a problem", || current.check().is_err()).await;
        assert_eq!(*current.get(), 2, "the last good one stays");
        assert!(current.check().unwrap_err().contains("number"));
        fs::remove_file(&path).unwrap();
        until("another problem", || {
            current.check().unwrap_err().contains("read")
        })
        .await;
        fs::write(&path, "2").unwrap();
        until("its end", || current.check().is_ok()).await;
        fs::write(&path, "12345678901").unwrap();
        until("the limit", || current.check().is_err()).await;
        drop(current);
        tokio::time::timeout(4 * POLL, kept).await.unwrap().unwrap();
    }

    #[test]
    fn a_file_that_is_wrong_from_the_start_is_refused_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        let refused = |path: &PathBuf| follow(vec![path.clone()], 10, number).err().unwrap();
        assert!(refused(&path).contains("number"));
        fs::write(&path, "one").unwrap();
        assert!(refused(&path).contains("number"));
    }
}

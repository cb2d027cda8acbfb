//! The data directory: one process at a time, and a format that this version knows.

use crate::ports::{LogError, StoreError};
use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

const FORMAT: &str = "1";

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "another quipu ({owner}) serves {directory}: stop that one first, or give this one a \
         directory of its own with --data"
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// Who has it, as far as is known.
        owner: String,
    },
    /// A newer version wrote it.
    #[error(
        "{directory} has data format {found}, and this version of quipu knows {FORMAT}: run the \
         version that wrote it, or a newer one"
    )]
    Format {
        /// The directory.
        directory: PathBuf,
        /// What its format file says.
        found: String,
    },
    /// The path is something else than a directory.
    #[error("{0} is not a directory: give the path of one, which is made when it does not exist")]
    NotADirectory(PathBuf),
    /// The directory holds what quipu did not put there.
    #[error(
        "{directory} is not a data directory of quipu (it has no file FORMAT), and is not empty \
         ({found} is there): give an empty or a new directory, such as {directory}/quipu-data"
    )]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// Something that is in it.
        found: String,
    },
    /// A setting that cannot be.
    #[error("{0}")]
    Settings(String),
    /// The file system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The storage engine refused.
    #[error("the storage engine cannot open its files: {0}")]
    Engine(#[from] fjall::Error),
    /// What is there contradicts an invariant or cannot be read.
    #[error("the data directory is damaged: {0}")]
    Damaged(String),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl OpenError {
    /// What the engine says of a database in the data directory.
    pub(super) fn engine(directory: &Path, error: fjall::Error) -> Self {
        match error {
            fjall::Error::Locked => Self::InUse {
                directory: directory.to_owned(),
                owner: "a part of which still runs".to_owned(),
            },
            other => Self::Engine(other),
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged(what) => Self::Damaged(what),
            other => Self::Io(io::Error::other(other.to_string())),
        }
    }
}

/// Holds the directory until it is dropped.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

/// Takes a data directory, creating it when there is none.
pub(super) fn take(directory: &Path) -> Result<DirectoryLock, OpenError> {
    if directory.exists() && !directory.is_dir() {
        return Err(OpenError::NotADirectory(directory.to_owned()));
    }
    fs::create_dir_all(directory).map_err(|error| at(directory, &error))?;
    refuse_foreign(directory)?;
    let path = directory.join("LOCK");
    let options = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let mut file = options.map_err(|error| at(&path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            let pid = pid.trim();
            let owner = if pid.is_empty() {
                "of unknown process id"
            } else {
                pid
            };
            let owner = format!("process {owner}");
            return Err(OpenError::InUse {
                directory: directory.to_owned(),
                owner,
            });
        }
        Err(TryLockError::Error(error)) => return Err(at(&path, &error)),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    check_format(directory)?;
    Ok(DirectoryLock { _file: file })
}

/// Files may be there before the format is: our own, if a crash came between, and the directory
/// that a new file system begins with.
fn refuse_foreign(directory: &Path) -> Result<(), OpenError> {
    if directory.join("FORMAT").exists() {
        return Ok(());
    }
    let entries = fs::read_dir(directory).map_err(|error| at(directory, &error))?;
    for entry in entries {
        let name = entry?.file_name();
        if !["LOCK", "FORMAT.new", "lost+found"]
            .iter()
            .any(|ours| name == *ours)
        {
            return Err(OpenError::Foreign {
                directory: directory.to_owned(),
                found: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

fn check_format(directory: &Path) -> Result<(), OpenError> {
    let path = directory.join("FORMAT");
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == FORMAT => Ok(()),
        Ok(found) => Err(OpenError::Format {
            directory: directory.to_owned(),
            found: found.trim().chars().take(40).collect(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_format(directory, &path),
        Err(error) => Err(at(&path, &error)),
    }
}

/// Writes the format file whole or not at all, so that a crash leaves no empty one behind.
fn create_format(directory: &Path, path: &Path) -> Result<(), OpenError> {
    let draft = directory.join("FORMAT.new");
    let mut file = File::create(&draft).map_err(|error| at(&draft, &error))?;
    writeln!(file, "{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&draft, path).map_err(|error| at(path, &error))?;
    File::open(directory)?.sync_all()?;
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> OpenError {
    OpenError::Io(io::Error::new(
        error.kind(),
        format!("{}: {error}", path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_served_by_one_process_which_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let held = take(directory.path()).unwrap();
        let error = take(directory.path()).unwrap_err().to_string();
        let expected = format!("another quipu (process {})", std::process::id());
        assert!(error.contains(&expected), "{error}");
        assert!(error.contains("--data"), "{error}");
        drop(held);
        take(directory.path()).unwrap();
    }

    #[test]
    fn a_directory_with_foreign_files_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
        let error = take(directory.path()).unwrap_err().to_string();
        assert!(error.contains("thesis.txt is there"), "{error}");
        assert!(error.contains("quipu-data"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::remove_file(directory.path().join("thesis.txt")).unwrap();
        for left_by_a_crash in ["LOCK", "FORMAT.new"] {
            fs::write(directory.path().join(left_by_a_crash), "").unwrap();
        }
        take(directory.path()).unwrap();
        fs::write(directory.path().join("later.txt"), "").unwrap();
        take(directory.path()).unwrap();
    }

    #[test]
    fn a_file_is_no_data_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "precious").unwrap();
        let error = take(&file).unwrap_err().to_string();
        assert!(error.contains("is not a directory"), "{error}");
    }

    #[test]
    fn a_directory_of_a_newer_version_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("FORMAT"), "2\n").unwrap();
        let error = take(directory.path()).unwrap_err();
        assert!(
            matches!(&error, OpenError::Format { found, .. } if found == "2"),
            "{error}"
        );
    }
}

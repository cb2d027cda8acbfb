//! Python with packages, for what is best tested from there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The interpreter of an environment with one package (`NAME==VERSION`) and what it needs, which is
/// installed once for each version of it.
pub(crate) fn with(package: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("venv-{package}"));
    let (python, finished) = (place.join("bin/python"), place.join("finished"));
    if !finished.exists() {
        let place = place.to_str().expect("a path in UTF-8");
        run(Command::new("python3").args(["-m", "venv", "--clear", place]));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]));
        fs::write(finished, "").expect("the directory is ours");
    }
    python
}

fn run(command: &mut Command) {
    let ran = command
        .output()
        .expect("python3 starts: install it with its module venv (Debian: python3-venv)");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {said}");
}

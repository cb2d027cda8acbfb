//! The binary with the distributed roles. The one beside the tests may lack them, or be older than
//! what it is made of: `cargo test -p quipu-tests` builds no binaries. Whoever has just built it says
//! so by `QUIPU_TEST_BINARY`.

use crate::files::root;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::LazyLock,
    time::SystemTime,
};

/// The binary, built if need be. It stays what it is, whatever is built while the tests run.
pub(super) fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = env::current_exe().expect("a test knows where it is");
        let profile = test.ancestors().nth(2).expect("target/PROFILE/deps");
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quipu-cluster");
        if let Some(given) = env::var_os("QUIPU_TEST_BINARY") {
            assert!(
                keep(Path::new(&given), &kept) && has_roles(&kept),
                "QUIPU_TEST_BINARY is no quipu with its distributed roles: {}",
                given.display()
            );
            return kept;
        }
        for _ in 0..3 {
            if keep(&profile.join("quipu"), &kept) && is_newest(profile) && has_roles(&kept) {
                return kept;
            }
            build(profile);
        }
        panic!("others build quipu without its roles, again and again");
    });
    &BINARY
}

/// Links a file to a place of its own. Whether it was there.
fn keep(built: &Path, kept: &Path) -> bool {
    let fresh = kept.with_extension(process::id().to_string());
    if fs::hard_link(built, &fresh).is_err() {
        return false;
    }
    fs::rename(&fresh, kept).expect("the directory is ours");
    // Two links to one file are left as they are.
    let _ = fs::remove_file(&fresh);
    true
}

/// Whether no file that the binary was made of, as cargo notes them beside it, is newer.
fn is_newest(profile: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let built = changed(&profile.join("quipu")).unwrap_or(SystemTime::UNIX_EPOCH);
    let Ok(noted) = fs::read_to_string(profile.join("quipu.d")) else {
        return false;
    };
    let (_, files) = noted.split_once(": ").unwrap_or_default();
    let files = files.trim_end().replace("\\ ", "\0");
    let mut files = files.split(' ').map(|file| file.replace('\0', " "));
    files.all(|file| changed(Path::new(&file)).is_some_and(|changed| changed <= built))
}

/// Without them it says what it lacks, and that the command line is wrong. With them it finds no
/// Cassandra.
fn has_roles(binary: &Path) -> bool {
    let asked = Command::new(binary)
        .args(["admin", "check"])
        .env("QUIPU_CASSANDRA_CONTACT_POINTS", "127.0.0.1:1")
        .output();
    asked.expect("the binary starts").status.code() == Some(5)
}

fn build(profile: &Path) {
    let name = profile.file_name().and_then(|name| name.to_str());
    let name = match name.expect("a profile") {
        "debug" => "dev",
        name => name,
    };
    eprintln!("building quipu with its distributed roles");
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo told this test about itself: build scripts that look at it would run again, each
    // time in turn with those of the tests.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let of_this_test = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_PRIMARY_",
        ];
        if of_this_test.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    let built = cargo
        .args(["build", "-p", "quipu", "--features", "cluster", "--profile"])
        .arg(name)
        .arg("--target-dir")
        .arg(profile.parent().expect("target"))
        .current_dir(root())
        .status();
    assert!(built.expect("cargo runs").success(), "quipu does not build");
}

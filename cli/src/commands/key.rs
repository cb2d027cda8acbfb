//! `quipu key`: makes and lists API keys. No server is asked: it reads the file by itself.

use super::{
    exit::{Exit, Failed},
    print,
};
use crate::args_key::{CreateArgs, KeyCommand};
use quipu_gateway::auth::{KeyEntry, Keyring, Permission, Secret};
use quipu_schemas::timestamp::to_rfc3339;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Runs one of the subcommands.
pub(crate) fn run(command: KeyCommand) -> Result<Exit, Failed> {
    match command {
        KeyCommand::Create(args) => create(args),
        KeyCommand::List { file } => list(&file),
    }
}

fn create(args: CreateArgs) -> Result<Exit, Failed> {
    let refused = |why: String| Failed::new(Exit::Usage, why);
    let secret = Secret::generate(&args.id)
        .map_err(|error| Failed::new(Exit::Internal, format!("no random bytes: {error}")))?;
    let entry = KeyEntry {
        id: args.id,
        hash: secret.hash().to_string(),
        namespaces: args.namespaces,
        allow: args.allow.into_iter().map(Into::into).collect(),
        expires: args.expires.map(to_rfc3339),
    };
    entry.is_valid().map_err(refused)?;
    match args.file {
        Some(file) => {
            let failed = |why| Failed::new(Exit::Internal, format!("{}: {why}", file.display()));
            append(&file, &entry).map_err(failed)?;
            print(&secret.reveal())?;
            let file = file.display();
            eprintln!(
                "added the key {} to {file}; its secret is shown this once",
                entry.id
            );
        }
        None => print(&format!(
            "{}\n\n{}",
            secret.reveal(),
            entry.to_toml().trim_end()
        ))?,
    }
    Ok(Exit::Done)
}

/// Adds an entry behind what a file holds, all at once: who reads it sees it before or after, and
/// two who add at the same time both do.
fn append(file: &Path, entry: &KeyEntry) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    // Where it really lies: what is replaced must not be a link to it.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let held = File::open(directory).map_err(text)?;
    held.lock().map_err(text)?;
    let before = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        before => before.map_err(text)?,
    };
    let gap = match before.as_bytes() {
        [] => "",
        [.., b'\n'] => "\n",
        _ => "\n\n",
    };
    let after = format!("{before}{gap}{}", entry.to_toml());
    Keyring::parse(&after)?;
    let mut replacement = tempfile::NamedTempFile::new_in(directory).map_err(text)?;
    replacement.write_all(after.as_bytes()).map_err(text)?;
    if let Ok(known) = fs::metadata(&file) {
        let permissions = known.permissions();
        replacement
            .as_file()
            .set_permissions(permissions)
            .map_err(text)?;
    }
    replacement.as_file().sync_all().map_err(text)?;
    replacement
        .persist(&file)
        .map_err(|error| text(error.error))?;
    held.sync_all().map_err(text)
}

fn list(file: &Path) -> Result<Exit, Failed> {
    let failed = |why: String| Failed::new(Exit::Internal, format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    for entry in KeyEntry::read_all(&text).map_err(failed)? {
        let names: Vec<_> = entry.allow.iter().map(|allow| name(*allow)).collect();
        let expires = entry.expires.as_deref().unwrap_or("never");
        let (id, allow) = (&entry.id, names.join(","));
        let namespaces = entry.namespaces.join(",");
        print(&format!("{id}\t{namespaces}\t{allow}\texpires {expires}"))?;
        if let Err(why) = entry.is_valid() {
            return Err(failed(format!("the key {id:?}: {why}")));
        }
    }
    Ok(Exit::Done)
}

fn name(permission: Permission) -> &'static str {
    match permission {
        Permission::Read => "read",
        Permission::Write => "write",
        Permission::Admin => "admin",
        Permission::Metrics => "metrics",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str) -> KeyEntry {
        KeyEntry {
            id: id.to_owned(),
            hash: Secret::generate(id)
                .expect("random bytes")
                .hash()
                .to_string(),
            namespaces: vec!["billing*".to_owned()],
            allow: vec![Permission::Read],
            expires: None,
        }
    }

    #[test]
    fn keys_are_added_behind_what_is_there_and_no_id_twice() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("keys.toml");
        append(&file, &entry("one")).expect("a new file");
        let text = fs::read_to_string(&file).expect("it is there");
        fs::write(&file, format!("# kept\n{}", text.trim_end())).expect("it is written");
        append(&file, &entry("two")).expect("another");
        let text = fs::read_to_string(&file).expect("it is there");
        assert!(text.starts_with("# kept\n[[key]]"), "{text}");
        let ids: Vec<_> = KeyEntry::read_all(&text)
            .expect("keys")
            .into_iter()
            .map(|e| e.id)
            .collect();
        assert_eq!(ids, ["one", "two"]);
        assert!(
            append(&file, &entry("one"))
                .expect_err("twice")
                .contains("one")
        );
        assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
        let left = fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(left, 1, "nothing is left beside the file");
    }
}

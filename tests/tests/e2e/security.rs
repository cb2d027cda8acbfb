//! Keys and TLS through the real binary: its server, its client verbs, and its keys' file.

use crate::process::{Place, Running, ended, quipu};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

/// A server beyond loopback, with keys and TLS, and what its clients need.
struct Secured {
    place: Place,
    url: String,
    keys: PathBuf,
    certificate: PathBuf,
    _running: Running,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Makes a key, and puts its secret into a file of its own.
pub(crate) fn make_key(place: &Place, keys: &Path, id: &str, namespace: &str) -> PathBuf {
    let allow = "read,write,admin";
    let file = text(keys);
    let made = quipu(&[
        "key",
        "create",
        "--id",
        id,
        "--namespace",
        namespace,
        "--allow",
        allow,
        "--file",
        file,
    ])
    .output()
    .expect("the binary starts");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    let secret = String::from_utf8(made.stdout).expect("text");
    assert!(secret.starts_with(&format!("quipu_{id}_")), "{secret}");
    let stored = fs::read_to_string(keys).expect("the file is there");
    assert!(!stored.contains(secret.trim()), "only a hash is stored");
    let path = place.beside(id);
    fs::write(&path, secret).expect("it is written");
    path
}

fn start() -> Secured {
    let place = Place::new();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (certificate, key) = (place.beside("cert.pem"), place.beside("key.pem"));
    fs::write(&certificate, made.cert.pem()).expect("it is written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("it is written");
    let keys = place.beside("keys.toml");
    make_key(&place, &keys, "operator", "*");
    let mut serve = place.serve("0.0.0.0:0", "127.0.0.1:0");
    serve.args(["--keys", text(&keys)]);
    serve.args(["--tls-cert", text(&certificate), "--tls-key", text(&key)]);
    let child = serve
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut running = Running(child);
    let out = running.0.stdout.take().expect("standard output is a pipe");
    let mut line = String::new();
    let _ = BufReader::new(out).read_line(&mut line);
    let announced = line.split(' ').find(|word| word.starts_with("https://"));
    let port = announced.and_then(|url| url.rsplit(':').next());
    let url = format!("https://127.0.0.1:{}", port.expect("it says its port"));
    Secured {
        place,
        url,
        keys,
        certificate,
        _running: running,
    }
}

impl Secured {
    /// Runs a client verb with a key. Returns its exit code and what it said.
    fn verb(&self, arguments: &[&str], key: Option<&Path>) -> (i32, String) {
        let mut command = quipu(arguments);
        command.args(["--server", &self.url, "--ca", text(&self.certificate)]);
        command.args(["--timeout", "10s"]);
        if let Some(key) = key {
            command.args(["--api-key-file", text(key)]);
        }
        ended(
            &command
                .stdin(Stdio::null())
                .output()
                .expect("the binary starts"),
        )
    }

    /// Declares a namespace.
    fn declare(&self, namespace: &str, key: &Path) -> (i32, String) {
        let document = self.place.beside("document.json");
        let json = format!("{{\"namespace\": \"{namespace}\"}}");
        fs::write(&document, json).expect("it is written");
        self.verb(&["namespace", "apply", "-f", text(&document)], Some(key))
    }
}

/// Asks until an answer is as it should be: a changed file is read within some seconds.
fn until(what: &str, mut answer: impl FnMut() -> (i32, String), is_right: impl Fn(i32) -> bool) {
    let began = Instant::now();
    loop {
        let (code, said) = answer();
        if is_right(code) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{what}: {code}: {said}"
        );
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn each_tenant_reaches_its_own_counters_over_tls_and_no_other() {
    let server = start();
    let ours = make_key(&server.place, &server.keys, "ours", "our*");
    let theirs = make_key(&server.place, &server.keys, "theirs", "their*");
    let (ours, theirs) = (ours.as_path(), theirs.as_path());
    until(
        "a new key",
        || server.declare("ours", ours),
        |code| code == 0,
    );
    until(
        "a new key",
        || server.declare("theirs", theirs),
        |code| code == 0,
    );

    let add = ["add", "a", "5", "--namespace", "ours"];
    let (code, said) = server.verb(&add, Some(ours));
    assert_eq!(code, 0, "{said}");
    let (code, said) = server.verb(&["get", "a", "--namespace", "ours"], Some(ours));
    assert_eq!(code, 0, "{said}");
    let (_, listed) = server.verb(&["namespace", "list"], Some(ours));
    assert_eq!(listed.trim(), "ours");

    for arguments in [
        &add[..],
        &["get", "a", "--namespace", "ours"],
        &["clear", "a", "--namespace", "ours"],
        &["namespace", "show", "ours"],
        &["namespace", "delete", "ours"],
        &["namespace", "show", "of-nobody"],
    ] {
        let (code, said) = server.verb(arguments, Some(theirs));
        assert!(
            code != 0 && said.contains("PERMISSION_DENIED"),
            "{arguments:?}: {said}"
        );
        let (code, said) = server.verb(arguments, None);
        assert!(
            code != 0 && said.contains("UNAUTHENTICATED"),
            "{arguments:?}: {said}"
        );
    }

    let text = fs::read_to_string(&server.keys).expect("the file is there");
    let kept: Vec<_> = text
        .split("[[key]]")
        .filter(|entry| !entry.contains("\"ours\""))
        .collect();
    fs::write(&server.keys, kept.join("[[key]]")).expect("it is written");
    let read = || server.verb(&["get", "a", "--namespace", "ours"], Some(ours));
    until("a revoked key", read, |code| code != 0);
}

#[test]
fn a_server_that_the_network_reaches_does_not_start_without_keys() {
    let place = Place::new();
    let (code, said) = place.refused("127.0.0.1:0", "0.0.0.0:0");
    assert_ne!(code, 0);
    assert!(
        said.contains("quipu key create") && said.contains("--anonymous"),
        "{said}"
    );
    assert!(!place.data().exists(), "nothing was touched");
}

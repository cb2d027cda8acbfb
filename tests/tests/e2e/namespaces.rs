//! Namespaces by their files: what `quipu namespace` applies, compares and tells.

use crate::process::{Place, ended, quipu};
use std::{
    fs,
    io::Write,
    process::{Output, Stdio},
};

struct Verbs<'a> {
    place: &'a Place,
    server: String,
}

impl Verbs<'_> {
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.place.beside(name);
        fs::write(&path, text).expect("it is written");
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        self.with_input(arguments, "")
    }

    fn with_input(&self, arguments: &[&str], input: &str) -> (i32, String) {
        let mut running = quipu(&[&["namespace"], arguments].concat())
            .env("QUIPU_SERVER", &self.server)
            .env("QUIPU_AUTHOR", "ana@build")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = running.stdin.take().expect("it is piped");
        // It may end without reading.
        stdin.write_all(input.as_bytes()).ok();
        drop(stdin);
        let output: Output = running.wait_with_output().expect("it ends");
        ended(&output)
    }
}

#[test]
fn files_of_documents_are_compared_applied_and_found_in_the_history() {
    let place = Place::new();
    let server = place.start();
    let verbs = Verbs {
        place: &place,
        server: server.http.clone(),
    };
    let lines = "{\"namespace\": \"a\"}\n{\"namespace\": \"b\", \"accept_limit\": \"60s\"}\n";
    let lines = verbs.file("lines.json", lines);
    let array = verbs.file(
        "array.json",
        r#"[{"namespace": "c", "type": "EVENTUALLY_CONSISTENT"}]"#,
    );

    let (code, text) = verbs.run(&["diff", "-f", &lines, &array]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("a (it does not exist)"), "{text}");
    let (code, text) = verbs.run(&["apply", "--dry-run", "-f", &lines, &array]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(r#"accept_limit: added "1m""#), "{text}");
    assert_eq!(
        verbs.run(&["list"]).1,
        "default\n",
        "a dry run changes nothing"
    );

    let (code, text) = verbs.run(&["apply", "-f", &lines, "-f", &array]);
    assert_eq!(code, 0, "{text}");
    let told: Vec<_> = text.lines().collect();
    assert_eq!(told.len(), 3, "{text}");
    assert!(
        told[0].starts_with("a created (version 1, effective 20"),
        "{text}"
    );
    assert_eq!(
        verbs.run(&["diff", "-f", &lines, &array]),
        (0, String::new())
    );

    let changed =
        r#"{"namespace": "b", "accept_limit": "1m 1s"} {"namespace": "a", "max_future": "5000ms"}"#;
    let (code, text) = verbs.with_input(&["apply", "-f", "-"], changed);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("b changed (version 2,"), "{text}");
    assert!(text.contains("a unchanged (version 1,"), "{text}");

    let (code, text) = verbs.run(&["history", "b"]);
    assert_eq!(code, 0, "{text}");
    let told: Vec<_> = text.lines().collect();
    assert!(told[1].contains("ana@build"), "{text}");
    assert!(
        told[1].ends_with(r#"accept_limit: "1m" -> "1m 1s""#),
        "{text}"
    );
    assert!(told[2].ends_with("created"), "{text}");
    let (code, text) = verbs.run(&["history", "b", "--json"]);
    assert_eq!(code, 0, "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["versions"][0]["change"]["kind"], "changed");
    place.assert_no_panic();
}

#[test]
fn a_document_that_is_wrong_lets_none_be_applied_and_a_version_that_moved_not_that_one() {
    let place = Place::new();
    let server = place.start();
    let verbs = Verbs {
        place: &place,
        server: server.http.clone(),
    };
    let good = verbs.file("good.json", r#"{"namespace": "a"}"#);
    let bad = verbs.file(
        "bad.json",
        r#"[{"namespace": "b"}, {"namespace": "c", "acept_limit": "1s"}]"#,
    );
    let (code, text) = verbs.run(&["apply", "-f", &good, &bad]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("bad.json: document 2: acept_limit"), "{text}");
    let (code, text) = verbs.run(&["apply", "-f", &good, &good]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("declared before"), "{text}");
    assert_eq!(verbs.run(&["list"]).1, "default\n");
    let missing = place.beside("missing.json");
    let missing = missing.to_str().expect("a path in UTF-8");
    assert_eq!(
        verbs.run(&["diff", "-f", missing]).0,
        2,
        "1 says that something differs"
    );

    let apply =
        |version, text| verbs.with_input(&["apply", "-f", "-", "--if-version", version], text);
    assert_eq!(apply("0", r#"{"namespace": "a"}"#).0, 0);
    let (code, text) = apply("0", r#"{"namespace": "a", "accept_limit": "9s"}"#);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("version 1 is in force"), "{text}");
    assert_eq!(
        apply("1", r#"{"namespace": "a", "accept_limit": "9s"}"#).0,
        0
    );
    let (code, text) = apply("1", r#"{"namespace": "a"} {"namespace": "b"}"#);
    assert_eq!(code, 2, "{text}");
    let (code, text) = verbs.run(&["delete", "a", "--if-version", "1"]);
    assert_eq!(code, 3, "{text}");
    assert_eq!(verbs.run(&["delete", "a", "--if-version", "2"]).0, 0);
    place.assert_no_panic();
}

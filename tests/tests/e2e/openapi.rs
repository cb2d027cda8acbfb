//! The server against its own `OpenAPI` document, by a tool that makes up requests from it.

use crate::{
    files::{read, root},
    http::Api,
    process::{Place, ended, quipu},
    python,
    security::make_key,
};
use serde_json::{Value, json};
use std::{fs, process::Command};

/// The document, but for answers that may have no field that it does not name.
fn strict(mut document: Value) -> Value {
    let schemas = document["components"]["schemas"].as_object_mut();
    for schema in schemas.expect("it has schemas").values_mut() {
        let schema = schema.as_object_mut().expect("a schema is an object");
        if schema.contains_key("properties") {
            schema.entry("additionalProperties").or_insert(json!(false));
        }
    }
    document
}

#[test]
fn the_server_does_what_its_openapi_document_says_and_nothing_else() {
    let requirement = read("tests/tests/e2e/openapi/requirements.txt");
    let python = python::with(requirement.trim());
    let place = Place::new();
    let keys = place.beside("keys.toml");
    let key = make_key(&place, &keys, "everything", "*");
    let secret = fs::read_to_string(&key);
    let authorization = format!("Authorization: Bearer {}", secret.expect("a secret").trim());
    let mut serve = place.serve("127.0.0.1:0", "127.0.0.1:0");
    let server = place.start_by(serve.arg("--keys").arg(&keys));
    // Those that hooks.py leads calls to.
    for (name, mode) in [
        ("ec", "EVENTUALLY_CONSISTENT"),
        ("accurate", "ACCURATE"),
        ("best", "BEST_EFFORT"),
    ] {
        let file = place.beside(name);
        let document = json!({"namespace": name, "type": mode}).to_string();
        fs::write(&file, document).expect("it is written");
        let mut apply = quipu(&["namespace", "apply", "--server", &server.http, "-f"]);
        apply.arg(file).arg("--api-key-file").arg(&key);
        let (code, said) = ended(&apply.output().expect("it starts"));
        assert_eq!(code, 0, "{said}");
    }
    let (status, document) = Api::new(&server.http)
        .get("/v1/openapi.json")
        .expect("it answers");
    assert_eq!(status, 200, "the document is there without a key");
    let file = place.beside("openapi.json");
    fs::write(&file, strict(document).to_string()).expect("it is written");
    let settings = root().join("tests/tests/e2e/openapi");
    let mut tool = Command::new(python.with_file_name("schemathesis"));
    tool.arg("--config-file")
        .arg(settings.join("schemathesis.toml"))
        .arg("run")
        .arg(file)
        .args(["--url", &server.http, "--header", &authorization])
        .env("SCHEMATHESIS_HOOKS", settings.join("hooks.py"))
        .current_dir(place.beside(""));
    let ran = tool.output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{failed}");
    eprintln!("{said}");
    place.assert_no_panic();
}

//! Any bytes may be put as a namespace document.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quipu_schemas::namespace::NamespaceDocument;

fuzz_target!(|json: &[u8]| match NamespaceDocument::from_json(json) {
    Ok(document) => {
        let text = serde_json::to_vec(&document).expect("a document can be written");
        let again = NamespaceDocument::from_json(&text).expect("what was written can be read");
        assert_eq!(again, document);
    }
    Err(error) => assert!(!error.field.is_empty() && !error.problem.is_empty()),
});

//! Any bytes may arrive in the events topic: each is an event or an error that says why not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quipu_schemas::event::{decode, encode};

fuzz_target!(|value: &[u8]| match decode(value) {
    Ok(event) => {
        let again = decode(&encode(&event)).expect("what was encoded can be decoded");
        assert_eq!(again, event);
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
